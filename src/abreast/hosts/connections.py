"""The connections of a process to the others of its job: to its neighbours in the ring, and to rank 0's board."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from functools import cached_property
from socket import socket

from abreast.errors import LaunchError
from abreast.hosts.board import Values, ValuesOfRank0
from abreast.hosts.channel import Channel
from abreast.hosts.listener import Listener, dial
from abreast.hosts.meeting import Meeting, join_seconds

_RINGS = ("ring", "ring of gradients")
_READS, _REST = "reads of the board", "board"
Ends = tuple[socket, socket]  # from the previous rank, and to the next rank
Wanted = set[tuple[int, str]]  # ranks that connect, each with the purpose


@dataclass
class Connections:
    """The connections of a process: from the previous rank and to the next rank, twice, and the board."""

    ring: Ends
    gradients: Ends
    board: Values | ValuesOfRank0


class Connecting:
    """A process that listens for the others of its meeting, and knows their addresses. All processes make one."""

    def __init__(self, meeting: Meeting) -> None:
        self._own = meeting.member
        self._listener = Listener(self._own, meeting.own_address)
        said = json.dumps([self._listener.address, self._listener.port]).encode()
        try:
            self._places = [json.loads(each) for each in meeting.exchange(said)]
        except BaseException:
            self._listener.close()
            raise

    @cached_property
    def connections(self) -> Connections:
        """The connections to the others, made at the first use. Raises `LaunchError` if a process is too late."""
        own, seconds = self._own, join_seconds()
        try:
            coming = _Coming(self._listener, _wanted(own.rank, own.size), seconds)
            after = [self._dial((own.rank + 1) % own.size, purpose, seconds).socket for purpose in _RINGS]
            board: Values | ValuesOfRank0 | None = None
            if own.rank > 0:
                board = ValuesOfRank0((self._dial(0, _READS, seconds), self._dial(0, _REST, seconds)))
            came = coming.wait()
            before = [came.pop(((own.rank - 1) % own.size, purpose)).socket for purpose in _RINGS]
            ring, gradients = zip(before, after, strict=True)
            return Connections(ring, gradients, board or Values(list(came.values())))
        finally:
            self._listener.close()

    def _dial(self, rank: int, purpose: str, seconds: float) -> Channel:
        address, port = self._places[rank]
        return dial(self._own, rank, str(address), int(port), purpose, seconds)


def _wanted(rank: int, size: int) -> Wanted:
    wanted: Wanted = {((rank - 1) % size, purpose) for purpose in _RINGS}
    if rank == 0:
        wanted |= {(other, purpose) for other in range(1, size) for purpose in (_READS, _REST)}
    return wanted


@dataclass
class _Coming:
    """Accepts connections in a thread: the processes connect to one another at the same time."""

    listener: Listener
    wanted: Wanted
    seconds: float
    came: dict[tuple[int, str], Channel] = field(default_factory=dict)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._accept, name="abreast-connect", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        try:
            while self.came.keys() < self.wanted:
                channel = self.listener.accept(self.seconds)
                if (channel.rank, channel.purpose) in self.wanted:
                    self.came[channel.rank, channel.purpose] = channel
                else:
                    channel.close()
        except BaseException as error:  # raised again by `wait`
            self.error = error

    def wait(self) -> dict[tuple[int, str], Channel]:
        while self._thread.is_alive():
            self._thread.join(1)  # short waits let Ctrl+C through
        if self.error is not None:
            missing = sorted({rank for rank, _ in self.wanted - self.came.keys()})
            raise LaunchError(
                f"rank {', '.join(map(str, missing))} did not connect within {self.seconds:g} s: {self.error}",
                "check that the hosts reach one another, and that no process has ended",
            ) from self.error
        return self.came
