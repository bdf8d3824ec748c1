"""Profiles as JSON files, read strictly: a wrong cost would make a wrong plan without a word.

Light.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from profiler.errors import ProfileError
from profiler.profile import SCHEMA, CodecSpeed, EngineUsed, LayerCost, Profile, ProfileKind
from profiler.values import ModelIdentity, TensorSlot
from protocol.files import read_file, replace_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_target", "profile_from_dict", "read_profile", "write_profile"]

_LARGEST_BYTES = 1 << 25  # a layer takes half a kilobyte, and large networks have some thousands
_SUM_TOLERANCE = 0.01  # of the whole; tools that edit profiles may round


def check_target(path: Path) -> None:
    """Find out before a long measurement whether its result can be written.

    Raises:
        ProfileError: The name cannot be that of a file, the folder is missing or not ours to write
            into, or something else than a file is there.
    """
    shown = repr(os.fspath(path))
    if not path.parent.is_dir():
        raise ProfileError(f"cannot write {shown}: no folder {os.fspath(path.parent)!r}")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise ProfileError(f"cannot write {shown}: {error.strerror}") from None
    # The file is replaced when the profile is complete; a device must not be.
    if not stat.S_ISREG(mode):
        raise ProfileError(f"cannot write {shown}: it is there and is no file; name another")
    if not os.access(path.parent, os.W_OK):
        raise ProfileError(f"cannot write {shown}: its folder may not be written to")


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile, replacing the file only once it is complete.

    Raises:
        ProfileError: The file cannot be written.
    """
    text = json.dumps(profile.to_dict(), indent=1, allow_nan=False) + "\n"
    try:
        replace_file(path, text)
    except OSError as error:
        raise ProfileError(f"cannot write profile {os.fspath(path)!r}: {error.strerror}") from error


def read_profile(path: Path) -> Profile:
    """Read a profile file.

    Raises:
        ProfileError: There is no such file, or it is no sound profile.
    """
    try:
        data = json.loads(read_file(path, _LARGEST_BYTES))
    except OSError as error:
        raise ProfileError(f"cannot read profile {os.fspath(path)!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"profile {os.fspath(path)!r} is not JSON: {error}") from error
    try:
        return profile_from_dict(data)
    except ProfileError as error:
        raise ProfileError(f"profile {os.fspath(path)!r}: {error}") from error


def profile_from_dict(data: Any) -> Profile:
    """Read what :meth:`Profile.to_dict` wrote.

    Raises:
        ProfileError: A field is missing, of the wrong kind or out of range, the parts do not add
            up to the whole, or the schema is not ours. The message names the field.
    """
    fields = _Fields(data, "")
    schema = fields.value("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        advice = "; update headtail" if newer else ""
        raise ProfileError(f"schema is {reprlib.repr(schema)}, this version reads {SCHEMA}{advice}")
    profile = Profile(
        label=fields.text("label"),
        kind=_kind(fields),
        model=ModelIdentity(
            fields.mapping("model").text("name"), fields.mapping("model").text("sha256")
        ),
        inputs=tuple(_slot(item) for item in fields.items("inputs")),
        engine=_engine(fields.mapping("engine")),
        machine=fields.mapping("machine").data,
        whole_ms=fields.number("whole_ms"),
        whole_spread_ms=fields.number("whole_spread_ms"),
        overhead_ms=fields.number("overhead_ms"),
        border_ms_per_mb=fields.number("border_ms_per_mb"),
        unattributed_ms=fields.number("unattributed_ms"),
        layers=tuple(_layer(item) for item in fields.items("layers")),
        exchange_ms=fields.number("exchange_ms"),
        peak_memory_bytes=_optional_count(fields, "peak_memory_bytes"),
        codecs=_codecs(fields.mapping("codecs")),
        uncertainty=fields.number("uncertainty"),
        notes=fields.texts("notes"),
        idle_w=_optional_number(fields, "idle_w"),
        busy_w=_optional_number(fields, "busy_w"),
    )
    _check_layers(profile)
    return profile


@dataclass(frozen=True)
class _Fields:
    """A JSON object being read; ``where`` leads to it in messages."""

    data: dict[str, Any]
    where: str

    def __post_init__(self) -> None:
        if not isinstance(self.data, dict):
            raise ProfileError(f"{self.where.rstrip('.') or 'the file'} must be a JSON object")

    def value(self, key: str) -> Any:
        if key not in self.data:
            raise ProfileError(f"{self.where}{key} is missing")
        return self.data[key]

    def refuse(self, key: str, wanted: str) -> NoReturn:
        raise ProfileError(
            f"{self.where}{key} is {reprlib.repr(self.data[key])}; it must be {wanted}"
        )

    def text(self, key: str) -> str:
        value = self.value(key)
        return value if isinstance(value, str) else self.refuse(key, "a text")

    def number(self, key: str) -> float:
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(key, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        return number if 0 <= number < math.inf else self.refuse(key, "0 or more and finite")

    def positive(self, key: str) -> float:
        value = self.number(key)
        return value if value > 0 else self.refuse(key, "above 0")

    def count(self, key: str) -> int:
        value = self.number(key)
        return int(value) if value == int(value) else self.refuse(key, "a whole number")

    def mapping(self, key: str) -> _Fields:
        return _Fields(self.value(key), f"{self.where}{key}.")

    def listed(self, key: str) -> list[Any]:
        value = self.value(key)
        return value if isinstance(value, list) else self.refuse(key, "a list")

    def items(self, key: str) -> list[_Fields]:
        listed = enumerate(self.listed(key))
        return [_Fields(item, f"{self.where}{key}[{index}].") for index, item in listed]

    def texts(self, key: str) -> tuple[str, ...]:
        listed = self.listed(key)
        if not all(isinstance(item, str) for item in listed):
            self.refuse(key, "a list of texts")
        return tuple(listed)


def _kind(fields: _Fields) -> ProfileKind:
    kind = fields.text("kind")
    if kind not in ("measured", "predicted"):
        fields.refuse("kind", "'measured' or 'predicted'")
    return cast("ProfileKind", kind)


def _slot(fields: _Fields) -> TensorSlot:
    shape = fields.listed("shape")
    if not all(type(axis) is int and axis >= 0 for axis in shape):
        fields.refuse("shape", "a list of whole numbers")
    return TensorSlot(fields.text("name"), fields.text("dtype"), tuple(shape))


def _engine(fields: _Fields) -> EngineUsed:
    return EngineUsed(
        name=fields.text("name"),
        version=fields.text("version"),
        provider=fields.text("provider"),
        threads=fields.count("threads"),
        precision=fields.text("precision"),
    )


def _layer(fields: _Fields) -> LayerCost:
    nodes = fields.texts("nodes")
    if not nodes:
        fields.refuse("nodes", "a list of at least one node name")
    return LayerCost(
        name=fields.text("name"),
        nodes=nodes,
        latency_ms=fields.number("latency_ms"),
        spread_ms=fields.number("spread_ms"),
        kind=fields.text("kind"),
        output_bytes=fields.count("output_bytes"),
        layout_ms=fields.number("layout_ms"),
    )


def _optional_count(fields: _Fields, key: str) -> int | None:
    return None if fields.value(key) is None else fields.count(key)


def _optional_number(fields: _Fields, key: str) -> float | None:
    """Profiles written before there were power figures lack the key."""
    return None if fields.data.get(key) is None else fields.number(key)


def _codecs(fields: _Fields) -> dict[str, CodecSpeed]:
    speeds = {}
    for name in fields.data:
        speed = fields.mapping(name)
        speeds[name] = CodecSpeed(
            encode_mb_s=speed.positive("encode_mb_s"),
            decode_mb_s=speed.positive("decode_mb_s"),
            fixed_ms=speed.number("fixed_ms"),
        )
    return speeds


def _check_layers(profile: Profile) -> None:
    owner: dict[str, str] = {}
    for layer in profile.layers:
        for node in layer.nodes:
            if node in owner:
                raise ProfileError(
                    f"node {node!r} is in the layers {owner[node]!r} and {layer.name!r}"
                )
            owner[node] = layer.name
    parts = profile.overhead_ms + profile.layout_ms + profile.unattributed_ms
    parts += sum(layer.latency_ms for layer in profile.layers)
    if abs(parts - profile.whole_ms) > _SUM_TOLERANCE * profile.whole_ms:
        raise ProfileError(
            f"overhead, layers, layout and unattributed time add up to {parts:g} ms, "
            f"but whole_ms is {profile.whole_ms:g}"
        )
    if not profile.layers:
        raise ProfileError("layers is empty")
