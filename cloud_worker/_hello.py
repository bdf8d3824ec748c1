"""What a HELLO asks for, and whether this worker grants it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloud_worker._work import TailKey
from protocol import (
    CODEC_NAMES,
    PROTOCOL_VERSION,
    HeadtailError,
    ImagePreprocess,
    RefusalCode,
    Refuse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cloud_worker._repository import ModelRepository
    from protocol import Hello

_NAMES_IN_TEXT = 8


@dataclass(frozen=True)
class Terms:
    """What a session works by, once its tail is there.

    Attributes:
        hello: What the agent said.
        key: The tail it needs.
        preprocess: How pixels become an input; None where the agent sends only tensors.
    """

    hello: Hello
    key: TailKey
    preprocess: ImagePreprocess | None


def read_hello(
    hello: Hello, models: ModelRepository, decodes: Callable[[str], bool]
) -> Terms | Refuse:
    """Check everything that can be checked before the tail is loaded.

    Args:
        hello: What the agent said.
        models: What this worker serves.
        decodes: Whether this worker can decode what a codec makes, by the codec's name.
    """
    if hello.protocol_version != PROTOCOL_VERSION:
        return _refuse(
            RefusalCode.VERSION_MISMATCH,
            f"protocol version {hello.protocol_version}; this worker speaks {PROTOCOL_VERSION}",
        )
    if models.find(hello.model) is None:
        return _refuse(RefusalCode.UNKNOWN_MODEL, _unknown_model(hello.model, models))
    for what, names in (("frontier", hello.frontier), ("results", hello.results)):
        if not names:
            return _refuse(RefusalCode.ILLEGAL_CUT, f"the {what} is empty; the tail has no work")
        if len(set(names)) != len(names):
            return _refuse(RefusalCode.BAD_HELLO, f"the {what} names a tensor twice")
    foreign = [name for name in hello.codecs if not decodes(name)]
    if foreign:
        known = _listed(filter(decodes, CODEC_NAMES))
        text = f"codecs {_listed(foreign)}; this worker decodes {known}"
        return _refuse(RefusalCode.UNSUPPORTED_CODEC, text)
    try:
        preprocess = ImagePreprocess.from_dict(hello.preprocess) if hello.preprocess else None
    except HeadtailError as error:
        return _refuse(RefusalCode.BAD_HELLO, f"preprocess: {error}")
    key = TailKey.of(hello.model, hello.frontier, hello.results)
    return Terms(hello, key, preprocess)


def _unknown_model(digest: str, models: ModelRepository) -> str:
    served = _listed([f"{entry.name} {entry.sha256[:12]}" for entry in models.entries()])
    return f"no model with sha256 {digest[:12]} here; this worker serves {served}"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _NAMES_IN_TEXT} more" if len(every) > _NAMES_IN_TEXT else ""
    return (", ".join(every[:_NAMES_IN_TEXT]) or "none") + more


def _refuse(code: RefusalCode, text: str) -> Refuse:
    return Refuse(code, text, None)
