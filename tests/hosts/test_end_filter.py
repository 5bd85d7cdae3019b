"""A connection whose other end has closed looks silent to this process, and not closed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from abreast.hosts.end_filter import hide_end

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a filter of Linux")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        near.settimeout(0.3)
        without_address = socket.socketpair()
        with far, without_address[0], without_address[1]:
            yield near, far


def test_the_end_of_a_connection_is_seen_unless_it_is_hidden(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    far.close()
    assert near.recv(9) == b""


@pytest.mark.parametrize("reset", [False, True])
def test_a_hidden_end_is_silence(ends: tuple[socket.socket, socket.socket], reset: bool) -> None:
    near, far = ends
    assert hide_end(*near.getpeername()) == 1
    far.sendall(b"before")
    assert near.recv(9) == b"before"
    if reset:
        near.sendall(b"never read, so that the kernel resets the connection")
    far.close()
    with pytest.raises(TimeoutError):
        near.recv(9)


def test_only_connections_to_that_place_change(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    address, port = near.getpeername()
    assert hide_end(address, port - 1) == 0
    far.close()
    assert near.recv(9) == b""


def test_no_file_stays_open_that_was_not_open_before(ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    near, _ = ends
    with (tmp_path / "file").open("w"):
        before = os.listdir("/proc/self/fd")
        assert hide_end(*near.getpeername()) == 1
        assert os.listdir("/proc/self/fd") == before
