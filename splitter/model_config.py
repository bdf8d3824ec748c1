"""What a model file does not say: how a picture becomes its input, and what its classes are called.

Read from ``NAME.yaml`` beside ``NAME.onnx``, or from the file that the user names. Needs PyYAML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from profiler.values import TensorSlot
from protocol.errors import ProtocolError
from protocol.files import read_file
from protocol.preprocess import ImagePreprocess
from protocol.text import did_you_mean
from splitter.errors import PlanError

_KEYS = ("labels", "preprocess")
_LARGEST_BYTES = 1 << 16  # two keys; PyYAML takes seconds for a megabyte
_LARGEST_LABELS_BYTES = 1 << 24


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases: nothing here needs them, and a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"aliases such as *{event.anchor} are not read", event.start_mark
            )
        return super().compose_node(parent, index)


@dataclass(frozen=True)
class ModelConfig:
    """What is declared about a model.

    Attributes:
        preprocess: How a picture becomes the input; ``None`` if the input is no picture.
        labels: Names of the classes in the order of the output.
    """

    preprocess: ImagePreprocess | None = None
    labels: tuple[str, ...] = ()


def find_model_config(model: Path, named: Path | None) -> ModelConfig:
    """Return the declared configuration of a model: of the named file, or of the one beside it.

    Raises:
        PlanError: The named file is missing, or one that cannot be used.
    """
    path = named or model.with_suffix(".yaml")
    if named is None and not path.is_file():
        return ModelConfig()
    try:
        data = yaml.load(read_file(path, _LARGEST_BYTES), _PlainLoader)  # noqa: S506  # a SafeLoader
    except FileNotFoundError:
        raise PlanError(f"there is no file {path}") from None
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise PlanError(f"{path} is not valid YAML: {reason}") from None
    return _config(path, data)


def labels_note(labels: Sequence[str], outputs: Sequence[TensorSlot]) -> list[str]:
    """Say that no answer will show these labels, where that is so.

    Args:
        labels: Names of the classes; empty if not declared.
        outputs: Outputs of the model, in concrete shapes.
    """
    if not labels:
        return []
    sizes = [math.prod(axis or 0 for axis in slot.shape) for slot in outputs]
    if sizes == [len(labels)] and len(labels) in outputs[0].shape and "float" in outputs[0].dtype:
        return []
    shown = ", ".join(f"{slot.name} {slot.dtype} {list(slot.shape)}" for slot in outputs[:3])
    note = f"No answer will show the {len(labels)} labels: that takes a single output of floats "
    return [note + f"with one value for each, and the model gives {shown}."]


def _config(path: Path, data: Any) -> ModelConfig:
    if not isinstance(data, dict):
        raise PlanError(f"{path} is no mapping; it may have the keys {', '.join(_KEYS)}")
    for key in data:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS)
            raise PlanError(f"{path}: unknown key {key!r}{hint}; known are {', '.join(_KEYS)}")
    preprocess = None
    if data.get("preprocess") is not None:
        if not isinstance(data["preprocess"], dict):
            raise PlanError(f"{path}: preprocess is no mapping; give height, width, mean and std")
        try:
            preprocess = ImagePreprocess.from_dict(data["preprocess"])
        except (ProtocolError, OverflowError) as error:
            raise PlanError(f"{path}: {error}") from error
    return ModelConfig(preprocess, _labels(path, data.get("labels")))


def _labels(path: Path, name: Any) -> tuple[str, ...]:
    if name is None:
        return ()
    if not isinstance(name, str):
        raise PlanError(f"{path}: labels is {name!r}; give the name of a file, one class a line")
    file = path.parent / name
    try:
        text = read_file(file, _LARGEST_LABELS_BYTES).decode("utf-8")
        return tuple(text.rstrip().splitlines())
    except OSError as error:
        raise PlanError(f"{path}: labels file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: labels file {file} is not UTF-8 text") from None
