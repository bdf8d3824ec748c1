"""What a worker is greeted with: all that it must know to serve a cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from device_agent._remote import sent_codecs
from protocol import PROTOCOL_VERSION, Hello, encode_message

if TYPE_CHECKING:
    from protocol import Limits
    from splitter.bundle import Bundle, BundledCut


def make_hello(bundle: Bundle, cut: BundledCut, limits: Limits) -> Hello:
    """Return the HELLO for one cut of a bundle, of a new incarnation.

    Raises:
        FrameError: The wire cannot carry it, since the cut has too many tensors or too long names.
            Known now, it cannot end a run in its midst, when a worker comes at last.
    """
    preprocess = bundle.preprocess
    hello = Hello(
        protocol_version=PROTOCOL_VERSION,
        incarnation=os.urandom(16),
        model=bundle.model.sha256,
        cut=cut.id,
        frontier=tuple(tensor.slot.name for tensor in cut.frontier),
        results=tuple(slot.name for slot in cut.results),
        codecs=sent_codecs(cut),
        preprocess=None if preprocess is None else preprocess.to_dict(),
        max_message_bytes=limits.message_bytes,
    )
    if cut.tail is not None:
        encode_message(hello)
    return hello
