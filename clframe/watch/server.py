"""The page of ``clframe watch --web``: served to this machine only, and nothing but the page.

Two addresses are answered: the page itself, which is one file without anything from elsewhere, and
``/state``, the view as JSON, which the page asks for every second and gets only when it has changed
(``ETag``). A request that names another host is refused: a foreign page whose name was made to lead
to this machine (DNS rebinding) reads nothing.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.resources
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from clframe.errors import SettingError
from clframe.watch.resolve import OneRun, SweepWatcher

LOOPBACK = "127.0.0.1"
PORT = 8642
"""Taken where none is asked for and it is free, so that an open page finds the server again."""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class PageServer:
    """Serves the page of a run or sweep in a thread.

    Args:
        watched: What the page shows.
        port: Where; None for the usual one or, where that is taken, a free one.

    Raises:
        SettingError: The port is taken or may not be used.
    """

    def __init__(self, watched: OneRun | SweepWatcher, port: int | None = None) -> None:
        self.watched = watched
        self.page = (importlib.resources.files("clframe.watch") / "page.html").read_bytes()
        self._reading = threading.Lock()
        self._server = self._bind(port)
        self.port = int(self._server.server_address[1])
        self.hosts = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}
        if self.port == 80:  # then a browser leaves it out
            self.hosts |= {LOOPBACK, "localhost"}
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def _bind(self, port: int | None) -> ThreadingHTTPServer:
        owner = self

        class Handler(_Handler):
            page_server = owner

        for number in (PORT, 0) if port is None else (port,):
            try:
                return ThreadingHTTPServer((LOOPBACK, number), Handler)
            except OSError as error:
                if port is None and number:
                    continue
                taken = error.errno == errno.EADDRINUSE
                why = (
                    "is taken by another program" if taken else f"cannot be used: {error.strerror}"
                )
                raise SettingError(
                    f"port {port} of this machine {why}; name another with --port, or leave it out"
                ) from error
        raise AssertionError  # port 0 is always there

    @property
    def address(self) -> str:
        """What to type into a browser."""
        return f"http://{LOOPBACK}:{self.port}/"

    def state(self, chosen: str) -> bytes:
        """The view as JSON; one request reads at a time."""
        with self._reading:
            return json.dumps(self.watched.view(chosen), allow_nan=False).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def wait(self) -> None:
        """Serve until the program is interrupted."""
        while True:
            self._thread.join(3600)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the two addresses, and nothing else."""

    page_server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = 60
    server_version = "clframe"
    sys_version = ""

    def do_GET(self) -> None:
        """The page or the state."""
        if self.headers.get("Host", "").lower() not in self.page_server.hosts:
            self._answer(403, b"this page is for this machine only\n", "text/plain")
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            self._answer(200, self.page_server.page, "text/html; charset=utf-8")
        elif asked.path == "/state":
            chosen = parse_qs(asked.query).get("run", [""])[0]
            self._answer(200, self.page_server.state(chosen), "application/json")
        else:
            self._answer(404, b"there is nothing here\n", "text/plain")

    do_HEAD = do_GET

    def _answer(self, code: int, content: bytes, kind: str) -> None:
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        if code == 200 and self.headers.get("If-None-Match") == tag:
            code, content = 304, b""
        self.send_response(code)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "ETag": tag,
            "Cache-Control": "no-cache",
            "Connection": "close",  # nothing waits for a page that is gone
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if code == 304:
            del headers["Content-Length"], headers["Content-Type"]
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal shows the address and no requests."""
