"""Write the golden files of the current protocol version anew; see README.md."""

from __future__ import annotations

from protocol.frames import encode_message
from tests.protocol.golden.files import FOLDER, write_frames
from tests.protocol.golden.values import golden_messages

for name, message in golden_messages().items():
    write_frames(FOLDER / f"{name}.bin", encode_message(message))
