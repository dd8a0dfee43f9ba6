"""A page in headless Chromium, over its DevTools protocol: what it logs, asks for and shows."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--mute-audio", "--remote-debugging-port=0"),
)
_SECONDS = 60.0


def chromium() -> str | None:
    """The browser of this machine; None if it has none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Tab:
    """One page."""

    def __init__(self, socket: ClientConnection, session: str) -> None:
        self._socket, self._session, self._number = socket, session, 0
        self.logged: list[str] = []
        """Messages on the console, errors and warnings of the browser."""
        self.requests: list[str] = []
        """Addresses that the page asked for, itself included."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": arguments}
        self._socket.send(json.dumps({**call, "sessionId": self._session}))
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=_SECONDS))
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.logged.append(str([one.get("value") for one in given["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.logged.append(str(given["exceptionDetails"].get("text")))
        elif method == "Log.entryAdded":
            self.logged.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        return message

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Make the window that large, in a light or a dark scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Open a page in a window of that size and wait until it is there."""
        self.resize(width, height, dark=dark)
        self.call("Page.navigate", url=address)
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def wait_for(self, expression: str, seconds: float = 300.0) -> None:
        """Wait until an expression holds in the page."""
        end = time.monotonic() + seconds
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """An image of the whole page, or of what is in the window."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def tab(program: str, folder: Path) -> Iterator[Tab]:
    """A new browser with one empty page; it is ended afterwards.

    Args:
        program: As :func:`chromium` gives it.
        folder: An empty folder for the browser's own files.
    """
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium asks for it
    process = subprocess.Popen(
        [program, *_FLAGS, *alone, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port, path = _address(folder / "DevToolsActivePort", process)
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as socket:
            made = _ask(socket, "Target.createTarget", url="about:blank")
            session = _ask(socket, "Target.attachToTarget", targetId=made["targetId"], flatten=True)
            yield Tab(socket, session["sessionId"])
    finally:
        process.terminate()
        process.wait(timeout=_SECONDS)


def _address(file: Path, process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Where the browser listens, as it says once it does."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "Chromium ended at once"
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            return lines[0], lines[1]
        time.sleep(0.02)
    raise TimeoutError("Chromium did not say where it listens")


def _ask(socket: ClientConnection, method: str, **arguments: Any) -> dict[str, Any]:
    socket.send(json.dumps({"id": 0, "method": method, "params": arguments}))
    while True:
        message = json.loads(socket.recv(timeout=_SECONDS))
        if message.get("id") == 0:
            result: dict[str, Any] = message["result"]
            return result
