"""The page of ``clframe watch --web``: a server for this machine only.

The server answers two addresses: the page itself, which is one self-contained file, and ``/state``,
the view as JSON. The page requests ``/state`` every second and gets it only when it has changed
(``ETag``). A request that names another host is refused, so that a foreign page whose name was made
to resolve to this machine (DNS rebinding) cannot read anything.
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
"""The default port if it is free, so that an open page finds the server again."""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class PageServer:
    """Server of the page of a run or sweep, in a thread.

    Args:
        watched: The run or sweep to show.
        port: Port; None for the usual one or, if that is taken, a free one.

    Raises:
        SettingError: The port is taken or not allowed.
    """

    def __init__(self, watched: OneRun | SweepWatcher, port: int | None = None) -> None:
        self.watched = watched
        self.page = (importlib.resources.files("clframe.watch") / "page.html").read_bytes()
        self._reading = threading.Lock()
        self._server = self._bind(port)
        self.port = int(self._server.server_address[1])
        self.hosts = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}
        if self.port == 80:  # Browsers leave it out.
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
        raise AssertionError  # Port 0 always works.

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://{LOOPBACK}:{self.port}/"

    def state(self, chosen: str) -> bytes:
        """Return the view as JSON; requests read one at a time."""
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
    """Handler of GET and HEAD requests for the two addresses."""

    page_server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = 60
    server_version = "clframe"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the page or the state."""
        if self.headers.get("Host", "").lower() not in self.page_server.hosts:
            self._answer(403, b"this page is for this machine only\n", "text/plain")
            return
        url = urlsplit(self.path)
        if url.path == "/":
            self._answer(200, self.page_server.page, "text/html; charset=utf-8")
        elif url.path == "/state":
            chosen = parse_qs(url.query).get("run", [""])[0]
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
            "Connection": "close",  # Do not wait for a page that is gone.
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
        """Do nothing: the terminal shows the address and no requests."""
