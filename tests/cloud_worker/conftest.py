"""Fixtures: contexts, peers and small real models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
import zmq
from onnx import TensorProto, helper, numpy_helper

from tests.cloud_worker.support import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def connect(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Callable[[str], Peer]]:
    peers: list[Peer] = []

    def make(address: str) -> Peer:
        peers.append(Peer(context, address))
        return peers[-1]

    yield make
    for peer in peers:
        peer.socket.close(0)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with ``net.onnx``: image [1, 8] -> hidden, skip [1, 8] -> answer [1, 8].

    answer = relu(image * 2 + weights) + image * 2; ``hidden`` is the sum, ``skip`` the product.
    """
    folder = tmp_path / "models"
    folder.mkdir()
    save_net(folder / "net.onnx")
    return folder


def save_net(path: Path, weight: float = 0.5) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["image", "two"], ["skip"], name="double"),
            helper.make_node("Add", ["skip", "weights"], ["hidden"], name="shift"),
            helper.make_node("Relu", ["hidden"], ["active"], name="relu"),
            helper.make_node("Add", ["active", "skip"], ["answer"], name="join"),
        ],
        "net",
        [value("image", TensorProto.FLOAT, [1, 8])],
        [value("answer", TensorProto.FLOAT, [1, 8])],
        [
            numpy_helper.from_array(np.float32([2]), "two"),
            numpy_helper.from_array(np.linspace(-8, weight, 8, dtype=np.float32), "weights"),
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
