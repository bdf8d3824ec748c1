"""A model of two additions, as a bundle without files; runs on the fake engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from device_agent import Frame
from profiler.testing import FakeEngine, FakeModel
from profiler.values import ModelIdentity, TensorSlot
from protocol import ImagePreprocess
from splitter.bundle import Bundle, BundledCut, FrontierTensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

FOLDER = Path("toy")
WIDTH = 8
X = TensorSlot("x", "float32", (1, WIDTH))
MIDDLE = TensorSlot("middle", "float32", (1, WIDTH))
Y = TensorSlot("y", "float32", (1, WIDTH))
SIDE = TensorSlot("side", "float32", (1,))


def head(feeds: Arrays) -> dict[str, NDArray[Any]]:
    return {"middle": feeds["x"] * 2, "side": feeds["x"][0, :1]}


def tail(feeds: Arrays) -> dict[str, NDArray[Any]]:
    return {"y": feeds["middle"] + 1}


def full(feeds: Arrays) -> dict[str, NDArray[Any]]:
    made = head(feeds)
    return {"side": made["side"], **tail(made)}


def bundle(**changes: Any) -> Bundle:
    """Outputs are y, which the tail makes, and side, which the head makes."""
    cuts = [
        BundledCut("device", FOLDER / "full", None, (), (), ("y", "side")),
        BundledCut("cloud", None, FOLDER / "full", (FrontierTensor(X, "raw"),), (Y, SIDE), ()),
        BundledCut(
            "middle",
            FOLDER / "head",
            FOLDER / "tail",
            (FrontierTensor(MIDDLE, "raw"),),
            (Y,),
            ("side",),
        ),
    ]
    usual: dict[str, Any] = {
        "folder": FOLDER,
        "model": ModelIdentity("toy", "ab" * 32),
        "decision": "split",
        "cut_id": "middle",
        "cuts": {cut.id: cut for cut in cuts},
        "full": FOLDER / "full",
        "inputs": (X,),
        "outputs": (Y, SIDE),
        "preprocess": None,
        "labels": (),
        "plan": {},
    }
    return Bundle(**{**usual, **changes})


def engine() -> FakeEngine:
    return FakeEngine(
        {
            "full": FakeModel((X,), (SIDE, Y), full),
            "head": FakeModel((X,), (MIDDLE, SIDE), head),
            "tail": FakeModel((MIDDLE,), (Y,), tail),
        }
    )


def frames(count: int) -> Iterator[Frame]:
    for number in range(count):
        yield Frame({"x": np.full((1, WIDTH), number, np.float32)})


def expected(number: int) -> dict[str, NDArray[Any]]:
    made = full({"x": np.full((1, WIDTH), number, np.float32)})
    return {"y": made["y"], "side": made["side"]}


PREPROCESS = ImagePreprocess(6, 8, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
PICTURE = TensorSlot("picture", "float32", (1, 3, 6, 8))
MEAN = TensorSlot("mean", "float32", (1, 3))


def mean(feeds: Arrays) -> dict[str, NDArray[Any]]:
    return {"mean": feeds["picture"].mean(axis=(2, 3))}


def picture_bundle() -> Bundle:
    """The mean of each colour of a picture; cloud-only sends JPEG."""
    cloud = BundledCut(
        "cloud", None, FOLDER / "full", (FrontierTensor(PICTURE, "jpeg90"),), (MEAN,), ()
    )
    device = BundledCut("device", FOLDER / "full", None, (), (), ("mean",))
    return bundle(
        decision="cloud",
        cut_id="cloud",
        cuts={"cloud": cloud, "device": device},
        inputs=(PICTURE,),
        outputs=(MEAN,),
        preprocess=PREPROCESS,
    )


def picture_engine() -> FakeEngine:
    return FakeEngine({"full": FakeModel((PICTURE,), (MEAN,), mean)})
