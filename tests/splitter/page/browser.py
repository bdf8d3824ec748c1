"""A real browser for tests, driven through the DevTools protocol over two pipes.

https://chromedevtools.github.io/devtools-protocol/; messages are JSON, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE_S = 30.0

# The protocol speaks over the descriptors 3 and 4.
_START = "import os, sys; os.dup2({0}, 3); os.dup2({1}, 4); os.execv(sys.argv[1], sys.argv[1:])"


def find_browser() -> str | None:
    """Return the path of a browser, or ``None``."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A tab, and all that it said and asked for."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer, self._last, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and return its answer; what else arrives is kept as events."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._receive(lambda each: each.get("id") == self._last)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path, width: int, *, scheme: str = "light", media: str = "screen") -> None:
        """Show a file in a window of this width."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media=media, features=[feature])
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._receive(lambda each: each.get("method") == "Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Return what an expression is worth in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def said(self) -> list[dict[str, Any]]:
        """Return what the page wrote to the console, and what went wrong in it."""
        bad = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event["method"] in bad]

    def requested(self) -> list[str]:
        """Return the addresses that were asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path, clip: dict[str, float] | None = None) -> None:
        """Save the whole page, or a part of it, as a picture."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        area = clip or {"x": 0, "y": 0, "width": size["width"], "height": size["height"]}
        picture = self.call(
            "Page.captureScreenshot", captureBeyondViewport=True, clip={**area, "scale": 1}
        )
        path.write_bytes(base64.b64decode(picture["data"]))

    def _receive(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            while b"\0" in self._buffer:
                text, self._buffer = self._buffer.split(b"\0", 1)
                message: dict[str, Any] = json.loads(text)
                if "method" in message:
                    self.events.append(message)
                if wanted(message):
                    return message
            ready, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            assert ready, f"the browser said nothing for {_PATIENCE_S:g} s"
            data = os.read(self._read, 1 << 16)
            assert data, "the browser went away"
            self._buffer += data


@contextlib.contextmanager
def open_browser(program: str, folder: Path) -> Iterator[Page]:
    """Run a browser with a new profile in an empty folder, and give a tab of it."""
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    start = _START.format(to_browser, from_browser)
    process = subprocess.Popen(
        [sys.executable, "-c", start, program, *_FLAGS, f"--user-data-dir={folder}"],
        pass_fds=(to_browser, from_browser),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(read, write)
    finally:
        os.close(write)  # the browser ends when its pipe does
        os.close(read)
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
