"""The tensors that may cross a link, by number: sizes, and what would carry them. Needs numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.graph.observation import ObservedTensor
from profiler.profile import CodecSpeed, Profile
from protocol.codecs import Codec, RawCodec
from protocol.tensors import TensorSpec
from splitter.errors import PlanError
from splitter.optimise.problem import Costs
from splitter.situation import InputEncoding, Situation

_RAW = RawCodec()


@dataclass(frozen=True)
class Tensors:
    """All tensors that may cross, by number.

    The last codec is that of a picture, where the model's input is one; it carries nothing else.

    Attributes:
        names: Their names.
        raw_bytes: As they lie in memory.
        codecs: Names of what carries each, ``[tensor][codec]``.
        usable: Whether that is a way of its own, ``[tensor, codec]``; pictures apart.
        encoded_bytes: Size under each codec, ``[tensor, codec]``.
        coded_bytes: Size of what each codec has to work through, ``[tensor, codec]``.
        result_bytes: Size as a result that comes back, without loss.
        sendable: Whether a message carries it at all.
        picture: Number of the tensor that may travel as a picture; ``None`` if there is none.
    """

    names: tuple[str, ...]
    raw_bytes: Costs
    codecs: tuple[tuple[str, ...], ...]
    usable: NDArray[np.bool_]
    encoded_bytes: Costs
    coded_bytes: Costs
    result_bytes: Costs
    sendable: NDArray[np.bool_]
    picture: int | None


def tensors_of(situation: Situation, names: Sequence[str]) -> Tensors:
    """Return sizes and carriers of these tensors."""
    picture = situation.picture
    place = None if picture is None or picture.tensor not in names else names.index(picture.tensor)
    seen = [situation.tensors[name] for name in names]
    sendable = [name not in situation.space.unsendable for name in names]
    raw_bytes = np.array([float(tensor.raw_bytes) for tensor in seen])
    carriers, lossless = _Carriers(situation.codecs), _Carriers((_RAW,))
    rows = [
        carriers.of(tensor) if able else [(_RAW.name, 0)] * len(situation.codecs)
        for tensor, able in zip(seen, sendable, strict=True)
    ]
    codecs = [[name for name, _ in row] for row in rows]
    encoded = [[float(size) for _, size in row] for row in rows]
    usable = [[name not in row[:i] for i, name in enumerate(row)] for row in codecs]
    coded = np.repeat(raw_bytes[:, None], len(situation.codecs), axis=1)
    if picture is not None:
        coded = np.hstack([coded, _add_picture(picture, place, codecs, encoded, usable)])
    shape = (len(names), -1)
    return Tensors(
        names=tuple(names),
        raw_bytes=raw_bytes,
        codecs=tuple(map(tuple, codecs)),
        usable=np.array(usable, dtype=bool).reshape(shape),
        encoded_bytes=np.array(encoded).reshape(shape),
        coded_bytes=coded,
        result_bytes=np.array(
            [
                float(lossless.of(tensor)[0][1]) if able else 0.0
                for tensor, able in zip(seen, sendable, strict=True)
            ]
        ),
        sendable=np.array(sendable, dtype=bool),
        picture=place,
    )


def _add_picture(
    picture: InputEncoding,
    place: int | None,
    codecs: list[list[str]],
    encoded: list[list[float]],
    usable: list[list[bool]],
) -> Costs:
    """Add the picture's way to all tensors, usable by none; return what it has to work through."""
    pixels = float(picture.shape[0] * picture.shape[1] * picture.shape[2])
    coded = np.zeros((len(codecs), 1))
    for number, (names, sizes, use) in enumerate(zip(codecs, encoded, usable, strict=True)):
        here = number == place
        names.append(picture.codec if here else _RAW.name)
        sizes.append(float(picture.bytes) if here else 0.0)
        use.append(False)
        coded[number, 0] = pixels if here else 0.0
    return coded


class _Carriers:
    """What carries a tensor under each codec; a codec resolves all tensors of a dtype alike."""

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self._codecs = codecs
        self._resolved: dict[str, list[Codec]] = {}

    def of(self, tensor: ObservedTensor) -> list[tuple[str, int]]:
        """Name and size of what really carries a tensor under each codec."""
        dtype = tensor.slot.dtype
        if dtype not in self._resolved:
            spec = TensorSpec(tensor.slot.name, dtype, tensor.shape)
            self._resolved[dtype] = [codec.resolve(spec) for codec in self._codecs]
        carriers = []
        for codec in self._resolved[dtype]:
            size = tensor.encoded_bytes.get(codec.name)
            if size is None:
                spec = TensorSpec(tensor.slot.name, dtype, tensor.shape)
                size = codec.max_encoded_bytes(spec)
            carriers.append((codec.name, size))
        return carriers


def codec_speed(profile: Profile, codec: str) -> CodecSpeed:
    """Return how fast a codec is on a machine.

    Raises:
        PlanError: Its profile does not say.
    """
    try:
        return profile.codecs[codec]
    except KeyError:
        known = ", ".join(sorted(profile.codecs)) or "none"
        raise PlanError(
            f"the profile {profile.label!r} does not say how fast the codec {codec!r} is "
            f"(it knows {known}); profile the machine again"
        ) from None
