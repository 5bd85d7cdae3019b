"""A TCP proxy between two network namespaces that delays every byte, in place of `netem`.

    python benchmarks/slow_proxy.py /proc/PID/ns/net /proc/PID/ns/net SECONDS     (`slow_links.py` starts it)

In each namespace it has the address of the host on the other side and listens on all ports that a host may use, so the hosts need
not know it. It joins two TCP connections: effects of a delay within one connection (slow start, lost packets) are not emulated.
"""

from __future__ import annotations

import collections
import contextlib
import selectors
import socket
import sys
import threading
import time

from slow_links import ADDRESSES, PORTS, end_with_parent, inside

_CHUNK_BYTES = 256 << 10
_CONNECT_SECONDS = 60.0
_MOST_BYTES = 32 << 20  # under way in one direction: more than all our rates and delays need


def main() -> None:
    end_with_parent()
    near, far, delay_seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    with selectors.DefaultSelector() as selector:
        for here, there, address in ((near, far, ADDRESSES[1]), (far, near, ADDRESSES[0])):
            for listener in _listeners(here, address):
                selector.register(listener, selectors.EVENT_READ, (there, address))
        print("ready", flush=True)
        while True:
            for key, _ in selector.select():
                there, address = key.data
                listener: socket.socket = key.fileobj  # type: ignore[assignment]
                ends = listener.accept()[0], there, (address, listener.getsockname()[1]), delay_seconds
                threading.Thread(target=_join, args=ends, daemon=True).start()


def _listeners(path: str, address: str) -> list[socket.socket]:
    with inside(path):
        return [socket.create_server((address, port)) for port in PORTS]


def _join(ours: socket.socket, there: str, target: tuple[str, int], delay_seconds: float) -> None:
    """Connect to the real host, which may not listen yet."""
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            with inside(there):
                theirs = socket.create_connection(target)
            break
        except OSError:
            if time.monotonic() > deadline:
                ours.close()
                return
            time.sleep(0.05)
    for end in (ours, theirs):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for source, sink in ((ours, theirs), (theirs, ours)):
        _Pipe(source, sink, delay_seconds)


class _Pipe:
    """One direction of a connection: one thread receives bytes, another sends them when they are due."""

    def __init__(self, source: socket.socket, sink: socket.socket, delay_seconds: float) -> None:
        self._source, self._sink, self._delay = source, sink, delay_seconds
        self._waiting: collections.deque[tuple[float, bytes]] = collections.deque()
        self._held = 0
        self._changed = threading.Condition()
        for target in (self._take, self._give):
            threading.Thread(target=target, daemon=True).start()

    def _take(self) -> None:
        chunk = b"more"
        while chunk:
            try:
                chunk = self._source.recv(_CHUNK_BYTES)
            except OSError:
                chunk = b""
            with self._changed:
                self._changed.wait_for(lambda: self._held < _MOST_BYTES)
                self._held += len(chunk)
                self._waiting.append((time.monotonic() + self._delay, chunk))
                self._changed.notify_all()

    def _give(self) -> None:
        chunk = b"more"
        while chunk:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                due, chunk = self._waiting.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            with contextlib.suppress(OSError):
                if chunk:
                    self._sink.sendall(chunk)
                else:
                    self._sink.shutdown(socket.SHUT_WR)
            with self._changed:
                self._held -= len(chunk)
                self._changed.notify_all()


if __name__ == "__main__":
    main()
