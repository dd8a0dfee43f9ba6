"""Stand in for ``python``: hand arguments, environment and streams to the process server.

Runs without the site module, so that it starts in some milliseconds. The address of the server is
the first argument; the rest is what ``python`` would be given.
"""

import json
import os
import signal
import socket
import sys

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(address: str, words: list[str]) -> int:
    """Run a process elsewhere as if it were this one, and return its exit code."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(address)
    request = {
        "words": words,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "session": os.getsid(0) == os.getpid(),
        "ignored": [n for n in _FORWARDED if signal.getsignal(n) is signal.SIG_IGN],
    }
    socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
    child = int(connection.recv(100))
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os.kill(child, number))
    answer = connection.recv(100)
    if not answer:  # the server is gone
        return 70
    code = int(answer)
    if code < 0:  # end by the same signal
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
