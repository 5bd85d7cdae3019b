"""Connections between processes of one job, and everybody else who knocks."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from abreast.errors import LaunchError
from abreast.hosts import Channel, Listener, Member, dial, listener
from abreast.hosts.handshake import MAGIC

SECRET = b"0123456789abcdef" * 2
ZERO, ONE = Member(0, 2, "job 1", SECRET, "a"), Member(1, 2, "job 1", SECRET, "b")
LOOPBACK = "127.0.0.1"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_REFUSED_SECONDS", 0.0)


@pytest.fixture
def door() -> Iterator[Listener]:
    door = Listener(ZERO, LOOPBACK)
    yield door
    door.close()


@contextlib.contextmanager
def accepting(door: Listener, seconds: float = 10) -> Iterator[list[Channel]]:
    """In another thread, the listener waits for one process of the job, for up to `seconds`; yields those that came."""
    found: list[Channel] = []

    def accept() -> None:
        with contextlib.suppress(TimeoutError):
            found.append(door.accept(seconds))

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield found
    finally:
        thread.join(seconds + 5)
        assert not thread.is_alive()


def knock(door: Listener) -> socket.socket:
    """A stranger's connection, which has read the greeting."""
    stranger = socket.create_connection((door.address, door.port), 5)
    assert stranger.recv(40, socket.MSG_WAITALL)[:8] == MAGIC
    return stranger


def is_closed(stranger: socket.socket) -> bool:
    """Whether the listener has closed, and has said nothing."""
    stranger.settimeout(10)
    try:
        return stranger.recv(1) == b""
    except ConnectionError:
        return True


def test_two_processes_with_the_secret_send_messages(door: Listener) -> None:
    with accepting(door) as found:
        channel = dial(ONE, 0, door.address, door.port, "test", 5)
    assert (channel.rank, channel.host, channel.purpose) == (0, "a", "test")
    assert (found[0].rank, found[0].host, found[0].purpose) == (1, "b", "test")
    channel.send_json({"x": [1, "é"]})
    assert found[0].receive_json(5) == {"x": [1, "é"]}
    large = os.urandom(300_000)
    sender = threading.Thread(target=found[0].send, args=(large,))
    sender.start()
    assert channel.receive(5) == large
    sender.join(5)
    channel.close()
    with pytest.raises(ConnectionError, match="closed"):
        found[0].receive(5)
    found[0].close()


def refused(door: Listener, own: Member, to: int = 0) -> str:
    with accepting(door, 0.5) as found, pytest.raises(LaunchError) as error:
        dial(own, to, door.address, door.port, "test", 3)
    assert found == []
    return str(error.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"secret": SECRET[::-1]},
            "the two do not know the same secret\nhint: give every process of the job the same secret",
        ),
        (
            {"job": "job 0"},
            "rank 1 on host b belongs to job 'job 0', and rank 0 on host a to job 'job 1'\nhint: end the other",
        ),
        ({"size": 3}, "rank 1 on host b counts 3 processes, and rank 0 on host a counts 2"),
        ({"rank": 0}, "rank 0 on host b has no number among 2 processes; rank 0 on host a answered"),
        ({"rank": 2}, "rank 2 on host b has no number among 2 processes"),
        ({"rank": -1}, "rank -1 on host b has no number among 2 processes"),
    ],
)
def test_a_process_that_does_not_belong_here_is_refused_with_words(
    door: Listener, changed: dict[str, Any], said: str
) -> None:
    assert said in refused(door, replace(ONE, **changed))


def test_a_process_that_looks_for_another_rank_is_refused(door: Listener) -> None:
    assert "rank 1 on host b looked for rank 5, and found rank 0 on host a" in refused(door, ONE, to=5)


def test_a_listener_without_the_secret_is_not_believed() -> None:
    """It gets a proof, and cannot give one; the proof is bound to the nonces of this connection."""
    server = socket.create_server((LOOPBACK, 0))

    def pretend() -> None:
        with server.accept()[0] as connection:
            connection.sendall(MAGIC + bytes(32))
            connection.recv(4096)
            connection.sendall(struct.pack("!H", 2) + b"{}" + bytes(32))
            connection.recv(1)

    thread = threading.Thread(target=pretend)
    thread.start()
    with server, pytest.raises(LaunchError, match="it does not know the secret of this job"):
        dial(ONE, 0, LOOPBACK, server.getsockname()[1], "test", 1)
    thread.join(5)


def test_a_process_that_dies_in_the_handshake_has_refused_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_REFUSED_SECONDS", 5.0)
    server = socket.create_server((LOOPBACK, 0))
    port = server.getsockname()[1]

    def die() -> None:
        with server, server.accept()[0] as connection:
            connection.sendall(MAGIC + bytes(32))
            connection.recv(4096)

    thread = threading.Thread(target=die)
    thread.start()
    with pytest.raises(LaunchError, match=rf"rank 1 on host b has not reached rank 0 at {LOOPBACK}:{port} within 1 s"):
        dial(ONE, 0, LOOPBACK, port, "test", 1)
    thread.join(5)


def test_another_program_at_the_port_is_named() -> None:
    server = socket.create_server((LOOPBACK, 0))

    def greet() -> None:
        with server.accept()[0] as connection, contextlib.suppress(ConnectionError):
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            connection.recv(1)

    thread = threading.Thread(target=greet)
    thread.start()
    with server, pytest.raises(LaunchError, match="another program answers there, or another version of abreast"):
        dial(ONE, 0, LOOPBACK, server.getsockname()[1], "test", 1)
    thread.join(5)


def test_a_port_that_is_taken_is_named(door: Listener) -> None:
    with pytest.raises(LaunchError, match=rf"cannot listen on 127.0.0.1:{door.port}: Address already in use") as error:
        Listener(ZERO, LOOPBACK, door.port)
    assert "set MASTER_PORT to another port" in str(error.value)


def test_an_address_of_another_host_is_named() -> None:
    with pytest.raises(LaunchError, match=r"cannot listen on 192\.0\.2\.1:0: Cannot assign"):
        Listener(ZERO, "192.0.2.1")


def test_nobody_at_the_address_is_an_error_in_time() -> None:
    with socket.create_server((LOOPBACK, 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(
        LaunchError, match=rf"rank 1 on host b has not reached rank 0 at 127.0.0.1:{port} within 0.5 s: Conn"
    ):
        dial(ONE, 0, LOOPBACK, port, "test", 0.5)


def recorded_proof(door: Listener) -> bytes:
    """What a process of the job has sent to be accepted, as somebody on the way records it."""
    relay = socket.create_server((LOOPBACK, 0))
    sent = bytearray()

    def copy() -> None:
        with relay.accept()[0] as dialer, socket.create_connection((door.address, door.port)) as inner:
            dialer.sendall(inner.recv(40, socket.MSG_WAITALL))
            sent.extend(dialer.recv(4096))
            inner.sendall(sent)
            dialer.sendall(inner.recv(4096))

    thread = threading.Thread(target=copy)
    thread.start()
    with relay, accepting(door) as found:
        dial(ONE, 0, LOOPBACK, relay.getsockname()[1], "test", 5).close()
    thread.join(5)
    found[0].close()
    assert len(sent) > 100
    return bytes(sent)


def attacks(proof: bytes) -> list[Callable[[], bytes]]:
    """Bytes that strangers send after the greeting."""
    flips = [lambda i=i: proof[:i] + bytes([proof[i] ^ 1 << i % 8]) + proof[i + 1 :] for i in range(0, len(proof), 5)]
    return [
        lambda: proof,  # replayed
        lambda: os.urandom(len(proof)),
        lambda: bytes(len(proof)),
        lambda: os.urandom(32) + struct.pack("!H", 65535) + os.urandom(500),  # more than is allowed
        lambda: os.urandom(32) + struct.pack("!H", 0) + os.urandom(32),
        lambda: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + bytes(200),
        *flips,
    ]


def test_who_has_no_secret_is_refused_without_a_word(door: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replayed, changed at every fifth byte, garbage, of any length: n of n."""
    monkeypatch.setattr(listener, "_PROOF_SECONDS", 0.5)
    proof = recorded_proof(door)
    tried = attacks(proof)
    with accepting(door, 60) as found:
        for made in tried:
            with knock(door) as stranger:
                stranger.sendall(made())
                assert is_closed(stranger)
        assert found == []
        dial(ONE, 0, door.address, door.port, "test", 5).close()
    assert len(tried) > 30 and len(found) == 1 and door.refusals == []
    found[0].close()


def test_slow_strangers_are_forgotten(door: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_PROOF_SECONDS", 0.5)
    with accepting(door, 1.5) as found, knock(door) as silent, knock(door) as slow:
        slow.sendall(b"x")
        assert is_closed(silent) and is_closed(slow)
    assert found == []


def test_a_thousand_strangers_do_not_keep_the_right_one_out(door: Listener) -> None:
    """They stay connected and say nothing, or little. Files are limited, so they are 250 at a time."""
    with contextlib.ExitStack() as stack, accepting(door, 60) as found:
        for number in range(1000):
            stranger = stack.enter_context(knock(door))
            if number % 2:
                stranger.sendall(os.urandom(20))
            if number == 990:
                dial(ONE, 0, door.address, door.port, "test", 5).close()
                break
            if number % 250 == 249:
                stack.close()
    assert len(found) == 1
    found[0].close()


def test_a_message_over_the_limit_is_not_read(door: Listener) -> None:
    with accepting(door) as found:
        channel = dial(ONE, 0, door.address, door.port, "test", 5)
    channel.socket.sendall(struct.pack("!Q", 1 << 60) + b"x")
    with pytest.raises(ConnectionError, match=f"rank 1 sends {1 << 60} bytes at once"):
        found[0].receive(5)
    channel.close()
    found[0].close()


def test_a_fork_does_not_keep_a_connection_open(door: Listener) -> None:
    with accepting(door) as found:
        channel = dial(ONE, 0, door.address, door.port, "test", 5)
    child = os.fork()
    if child == 0:
        threading.Event().wait(3)
        os._exit(0)
    channel.close()
    with pytest.raises(ConnectionError, match="closed"):
        found[0].receive(2)
    os.kill(child, 9)
    os.waitpid(child, 0)
    found[0].close()


def test_the_secret_is_not_printed() -> None:
    assert "0123" not in repr(ZERO)
