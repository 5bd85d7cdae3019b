"""A filter that hides from a framework's own code that the other end of its connection has closed.

JAX ends a process by SIGABRT, with C++ frames, when the connection to its service closes. `watch.py` learns of a death at the
same moment, too late to name it first. So a kernel filter drops the packets that close such a connection: to this process the
connection seems silent until the process ends. Linux only; elsewhere nothing is hidden.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator

_SO_ATTACH_FILTER = 26
_FLAGS_AT, _FIN_OR_RST = 13, 0x05  # place and bits in the TCP header, where a socket's filter begins
_ALL, _NOTHING = 0xFFFFFFFF, 0
_PROGRAM = (  # classic Berkeley packet filter: code, instructions to skip if true and if false, value
    (0x30, 0, 0, _FLAGS_AT),  # load a byte
    (0x45, 0, 1, _FIN_OR_RST),  # is one of these bits set?
    (0x06, 0, 0, _NOTHING),  # pass nothing on
    (0x06, 0, 0, _ALL),
)


def hide_end(address: str, port: int) -> int:
    """Hide the end of each connection of this process to `address:port`; returns the number of changed connections."""
    if sys.platform != "linux":
        return 0
    found = 0
    for connection in _connections(address, port):
        with contextlib.suppress(OSError):  # a kernel without such filters
            _attach(connection)
            found += 1
    return found


def _attach(connection: socket.socket) -> None:
    steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _PROGRAM))
    program = struct.pack("HL", len(_PROGRAM), ctypes.addressof(steps))
    connection.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _connections(address: str, port: int) -> Iterator[socket.socket]:
    """Copies of the sockets of this process that are connected to `address:port`, also those of C code."""
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # it was closed meanwhile, or is not connected
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    there, its_port, *_ = connection.getpeername()
                    if (there.removeprefix("::ffff:"), its_port) == (address, port):
                        yield connection
