"""Connections between processes of one job: a listener at one address of this host, and `dial`, which connects to a listener.

Strangers cannot block a process of the job: a listener reads from all its connections at once, gives each a few seconds and
4 kB to prove itself, and drops the oldest if there are too many.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from abreast.errors import LaunchError
from abreast.hosts import handshake
from abreast.hosts.channel import Channel, keep_from_children, read
from abreast.hosts.handshake import Member, Refused
from abreast.launchers.route import with_port

_PROOF_SECONDS = 5.0  # limit for a stranger's proof
_MOST_STRANGERS = 128
_MOST_UNPROVED = 8
_AGAIN_SECONDS = 0.1
_ATTEMPTS = 20  # to find consecutive ports
_REFUSED_SECONDS = 10.0  # time for an older job to end at the same address


class Listener:
    """Waits at `address:port` for processes that know the secret; for port 0, the system chooses a port.

    Raises `LaunchError` if it cannot: the port is taken, or the address does not belong to this host.
    """

    def __init__(self, own: Member, address: str, port: int = 0) -> None:
        self._own = own
        try:
            self._socket = socket.create_server((address, port), family=_family(address), backlog=_MOST_STRANGERS)
        except OSError as error:
            raise _cannot_listen(own, address, port, error) from error
        keep_from_children(self._socket)
        self._socket.setblocking(False)
        self.address, self.port = address, int(self._socket.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._strangers: deque[_Stranger] = deque()  # oldest first
        self._ready: deque[Channel] = deque()
        self.unproved: set[tuple[str, str]] = set()  # addresses of processes without the secret, with the reason
        self.refusals: list[
            tuple[dict[str, Any], str]
        ] = []  # wrong claims of processes with the secret, with the reason

    def accept(self, seconds: float) -> Channel:
        """A channel to the next process that proves itself. Raises `TimeoutError` if none comes in time."""
        deadline = time.monotonic() + seconds
        while not self._ready:
            now = time.monotonic()
            if now >= deadline:
                raise TimeoutError(f"no process came within {seconds:g} s")
            until = min([deadline, *(stranger.deadline for stranger in list(self._strangers)[:1])])
            for key, _ in self._selector.select(max(until - now, 0)):
                self._welcome() if key.data is None else self._hear(key.data)
            while self._strangers and self._strangers[0].deadline <= time.monotonic():
                self._forget(self._strangers[0])
        return self._ready.popleft()

    def close(self) -> None:
        while self._strangers:
            self._forget(self._strangers[0])
        while self._ready:
            self._ready.popleft().close()
        self._selector.close()
        self._socket.close()

    def _welcome(self) -> None:
        try:
            connection, (address, *_) = self._socket.accept()
        except OSError:  # it has left already, or this process has too many files open
            return
        keep_from_children(connection)
        connection.setblocking(False)
        stranger = _Stranger(connection, str(address))
        self._strangers.append(stranger)
        self._selector.register(connection, selectors.EVENT_READ, stranger)
        self._send(stranger, stranger.greeting)
        if len(self._strangers) > _MOST_STRANGERS:
            self._forget(self._strangers[0])

    def _hear(self, stranger: _Stranger) -> None:
        try:
            data = stranger.connection.recv(handshake.bytes_missing(bytes(stranger.received)))
            stranger.received += data
            if not data:
                self._forget(stranger)
            elif handshake.bytes_missing(bytes(stranger.received)) == 0:
                self._decide(stranger)
        except BlockingIOError:
            return
        except OSError as error:  # also `Refused`: the stranger gets no answer
            if isinstance(error, Refused) and len(self.unproved) < _MOST_UNPROVED:
                self.unproved.add((stranger.address, str(error)))
            self._forget(stranger)

    def _decide(self, stranger: _Stranger) -> None:
        claims, refusal, answer = handshake.answer(self._own, stranger.greeting, bytes(stranger.received))
        if refusal is not None:
            self.refusals.append((claims, refusal))
        if not self._send(stranger, answer) or refusal is not None:
            self._forget(stranger)
            return
        self._selector.unregister(stranger.connection)
        self._strangers.remove(stranger)
        self._ready.append(
            Channel(stranger.connection, claims["rank"], str(claims.get("host")), str(claims.get("purpose")))
        )

    def _send(self, stranger: _Stranger, data: bytes) -> bool:
        """Send data without waiting; returns whether all of it fits. A process of the job always has room for it."""
        with contextlib.suppress(OSError):
            return stranger.connection.send(data) == len(data)
        return False

    def _forget(self, stranger: _Stranger) -> None:
        if stranger in self._strangers:
            self._strangers.remove(stranger)
            self._selector.unregister(stranger.connection)
            stranger.connection.close()


@dataclass(eq=False)
class _Stranger:
    """A connection that has not proved itself yet."""

    connection: socket.socket
    address: str
    greeting: bytes = field(default_factory=handshake.greeting)
    received: bytearray = field(default_factory=bytearray)
    deadline: float = field(default_factory=lambda: time.monotonic() + _PROOF_SECONDS)


def dial(own: Member, to: int, address: str, port: int, purpose: str, seconds: float) -> Channel:
    """A connection to rank `to`, which listens at `address:port`, or will soon.

    Raises `LaunchError` after `seconds` without a connection, and sooner if the process there does not belong to this job.
    """
    deadline = last = time.monotonic() + seconds
    refused: Refused | None = None
    error: OSError = TimeoutError("timed out")
    for left in _attempts(deadline):
        try:
            return _dial_once(own, to, address, port, purpose, left)
        except Refused as now_refused:
            deadline = min(deadline, time.monotonic() + _REFUSED_SECONDS) if refused is None else deadline
            refused = now_refused
        except OSError as failed:
            error = failed
            if refused is not None and not refused.is_ours and isinstance(failed, ConnectionRefusedError):
                refused, deadline = None, last  # no process listens any more: it had not refused, but was ending
        if refused is not None and time.monotonic() >= deadline:
            break
    raise _not_reached(own, to, with_port(address, port), seconds, refused or error) from (refused or error)


def _attempts(deadline: float) -> Iterator[float]:
    """The remaining seconds, before each attempt; there is at least one attempt."""
    pause = _AGAIN_SECONDS
    while True:
        yield max(min(_PROOF_SECONDS, deadline - time.monotonic()), 1.0)
        if time.monotonic() + pause > deadline:
            return
        time.sleep(pause)
        pause = min(1.5 * pause, 2.0)


def _dial_once(own: Member, to: int, address: str, port: int, purpose: str, seconds: float) -> Channel:
    deadline = time.monotonic() + seconds
    connection = socket.create_connection((address, port), seconds)
    try:
        keep_from_children(connection)
        said = _prove(own, connection, handshake.claims(own, to, purpose), deadline)
        return Channel(connection, to, str(said.get("host")), purpose)
    except BaseException:
        connection.close()
        raise


def _prove(own: Member, connection: socket.socket, claims: bytes, deadline: float) -> dict[str, Any]:
    greeted = read(connection, handshake.GREETING_BYTES, deadline)
    nonce, proof = handshake.proof(own, greeted, claims)
    connection.sendall(proof)
    try:
        received = read(connection, handshake.length_of_answer(read(connection, 2, deadline)), deadline)
    except ConnectionError as error:
        raise Refused("it does not accept this process: the two do not know the same secret") from error
    return handshake.check_answer(own, greeted, nonce, claims, received)


def free_port(address: str, count: int = 1) -> int:
    """The first of `count` consecutive free ports at this address, for servers that cannot choose a port."""
    for attempt in range(_ATTEMPTS):
        with contextlib.ExitStack() as probes:
            try:
                probe = probes.enter_context(socket.create_server((address, 0), family=_family(address)))
                port: int = probe.getsockname()[1]
                for next_port in range(port + 1, port + count):
                    probes.enter_context(socket.create_server((address, next_port), family=_family(address)))
                return port
            except (OSError, OverflowError):
                if attempt == _ATTEMPTS - 1:
                    raise
    raise AssertionError


def listening(address: str) -> tuple[int, int]:
    """A file descriptor that listens at this address, for a framework's server, and its port."""
    server = socket.create_server((address, 0), family=_family(address), backlog=1024)
    port: int = server.getsockname()[1]
    return server.detach(), port


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _cannot_listen(own: Member, address: str, port: int, error: OSError) -> LaunchError:
    taken = error.errno == errno.EADDRINUSE
    return LaunchError(
        f"{own} cannot listen on {with_port(address, port)}: {_reason(error)}",
        "set MASTER_PORT to another port, the same for every rank, or end the program that uses this one (`ss -ltnp`)"
        if taken
        else "set MASTER_ADDR to an address of the host of rank 0, the same for every rank",
    )


def _reason(error: OSError) -> str:
    """The system's text for an error: Python adds its own words to some errors."""
    return str(error) if error.errno is None or isinstance(error, socket.gaierror) else os.strerror(error.errno)


def _not_reached(own: Member, to: int, where: str, seconds: float, error: OSError) -> LaunchError:
    if isinstance(error, Refused):
        hint = "end the other job, or give this one another MASTER_PORT" if error.is_ours else _HINT_SECRET
        return LaunchError(f"{own} cannot join rank {to} at {where}: {error}", hint)
    return LaunchError(
        f"{own} has not reached rank {to} at {where} within {seconds:g} s: {_reason(error)}",
        f"check that rank {to} runs, that this is an address of its host which this host can reach, and that no firewall "
        "closes the port",
    )


_HINT_SECRET = (
    "give every process of the job the same secret: in the variable ABREAST_SECRET, or in a file of mode 0600 that "
    "ABREAST_SECRET_FILE names; without either, it is in ~/.abreast/secret, which hosts share only if they share homes"
)
