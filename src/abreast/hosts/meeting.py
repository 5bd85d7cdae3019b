"""The meeting of all ranks of a job, through rank 0, before a framework joins them."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from abreast.errors import LaunchError, WorkerError
from abreast.hosts.channel import Channel
from abreast.hosts.handshake import Member
from abreast.hosts.listener import Listener, dial
from abreast.hosts.secret import job_name, job_secret
from abreast.launchers import World, address_of_rank_0
from abreast.launchers.route import addresses
from abreast.limits import hang_seconds, seconds_of
from abreast.stderr import tell, tell_once

_SECONDS = 300.0
_REPORT_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_HELLO_SECONDS = 10.0  # limit between the proof of a process and its hello
_LATER_SECONDS = 5.0  # time for rank 0 to begin an exchange after another rank
_HERE_SECONDS = 3.0  # interval at which rank 0 reports that it still waits for others
_LINGER_SECONDS = 10.0  # after an error, time for ranks that have not heard of it
_MOST_BYTES = 1 << 30  # limit for a list of messages


class Meeting:
    """The ranks of a job, brought together by `meet`. `hellos`: the hellos of all ranks, in rank order.

    `member` is this process, and `own_address` its address for the others, which a `Listener` of this process needs.
    `address_of_rank_0` is the address at which this process reaches rank 0.
    """

    def __init__(self, member: Member, own_address: str, hellos: list[dict[str, Any]], channels: list[Channel]) -> None:
        self.member, self.own_address, self.hellos = member, own_address, hellos
        self.address_of_rank_0 = own_address if member.rank == 0 else str(channels[0].socket.getpeername()[0])
        self.hosts = [str(hello.get("host")) for hello in hellos]
        self.channels = channels  # on rank 0: to ranks 1, 2, ...; on others: one, to rank 0

    def exchange(self, message: bytes) -> list[bytes]:
        """The messages of all ranks, in rank order. All ranks call this, the same number of times, from one thread.

        A message has at most 1 MiB. Raises `WorkerError`, the same in all ranks, if a process has died or is silent for long.
        """
        seconds = hang_seconds()
        if self.member.rank > 0:
            to_rank_0 = self.channels[0]
            with _naming(to_rank_0, seconds):
                to_rank_0.send(message, seconds)
                return _split(to_rank_0.receive(seconds + _LATER_SECONDS, _MOST_BYTES))  # rank 0 waits for others
        try:
            messages = [message]
            for channel in self.channels:
                with _naming(channel, seconds):
                    messages.append(channel.receive(seconds))
        except WorkerError as error:
            for channel in self.channels:
                _send_last(channel, {"error": error.message})
            raise
        _tell_all(self.channels, messages)
        return messages

    def close(self) -> None:
        for channel in self.channels:
            channel.close()


def meet(
    world: World,
    hello: Mapping[str, Any],
    *,
    secret: bytes | None = None,
    seconds: float | None = None,
    beside_store: bool | None = None,
) -> Meeting:
    """Bring all ranks together: each passes a `hello`, a small dictionary for JSON, and gets the hellos of all.

    Each hello also gets the `rank` and the `host`. Rank 0 waits `seconds` for late processes (`ABREAST_JOIN_SECONDS`, or 300),
    and reports the missing ranks every 30 s. `secret` is `job_secret()` by default. With `beside_store`, `MASTER_PORT` belongs
    to a store of torch, and the ranks meet at the port after it; torchrun and Ray have such a store.

    Raises `LaunchError` in every process, with rank and host, if one is missing, comes twice, belongs to another job, or has
    another number of processes.
    """
    seconds = join_seconds() if seconds is None else seconds
    member = member_of(world, secret)
    own, address, port = meeting_place(world, beside_store=beside_store)
    said = {**hello, "rank": world.rank, "host": member.host}
    if world.rank == 0:
        return _Host(member, own, port, said, seconds).meeting()
    channel = dial(member, 0, address, port, "meeting", seconds)
    try:
        channel.send_json(said, _HELLO_SECONDS)
        return Meeting(member, str(channel.socket.getsockname()[0]), _heard(channel), [channel])
    except OSError as error:
        channel.close()
        raise LaunchError(f"rank 0 on host {channel.host} {_how(error, hang_seconds())}", _HINT_FIRST) from error


def member_of(world: World, secret: bytes | None = None) -> Member:
    """This process as a member of its job, with `secret` or, by default, `job_secret()`."""
    return Member(world.rank, world.size, job_name(world), job_secret() if secret is None else secret, world.host)


def meeting_place(world: World, *, beside_store: bool | None = None) -> tuple[str, str, int]:
    """The address of this process, the address of rank 0, and the port at which ranks meet there."""
    address, port = address_of_rank_0(world)
    return *addresses(world, address), meeting_port(port, beside_store=beside_store)


def meeting_port(port: int, *, beside_store: bool | None = None) -> int:
    """The port at which ranks meet, given `MASTER_PORT`."""
    if beside_store is None:
        beside_store = "TORCHELASTIC_RUN_ID" in os.environ or "RAY_RAYLET_PID" in os.environ
    return (port + 1 if port < 65535 else port - 1) if beside_store else port


def join_seconds() -> float:
    """Seconds to wait for processes that start late: `ABREAST_JOIN_SECONDS`, or 300."""
    return seconds_of("ABREAST_JOIN_SECONDS", _SECONDS, LaunchError)


class _Host:
    """Rank 0: it waits for all others, and then sends each the hellos of all, or an error."""

    def __init__(self, member: Member, address: str, port: int, hello: dict[str, Any], seconds: float) -> None:
        self._member, self._hello, self._seconds = member, hello, seconds
        self._listener = Listener(member, address, port)
        self._address = address
        self._channels: dict[int, Channel] = {}
        self._hellos: dict[int, dict[str, Any]] = {0: hello}

    def meeting(self) -> Meeting:
        try:
            self._gather()
            channels = [self._channels[rank] for rank in sorted(self._channels)]
            hellos = [self._hellos[rank] for rank in sorted(self._hellos)]
            for channel in channels:
                channel.send_json({"hellos": hellos}, _HELLO_SECONDS)
            return Meeting(self._member, self._address, hellos, channels)
        except BaseException as error:
            self._tell_of(error)
            for channel in self._channels.values():
                channel.close()
            raise
        finally:
            self._listener.close()

    def _gather(self) -> None:
        begin = reported = here = time.monotonic()
        while missing := self._missing():
            now = time.monotonic()
            if now - here >= _HERE_SECONDS:
                here = now
                for channel in self._channels.values():
                    _send_last(channel, _WAIT)
            if now - begin > self._seconds:
                raise self._too_late(missing)
            if now - reported >= _REPORT_SECONDS:
                reported = now
                tell(f"rank 0 waits for {_ranks(missing)} of {self._member.size}, for {now - begin:.0f} s until now")
            with contextlib.suppress(TimeoutError):
                self._take(self._listener.accept(min(_LOOK_SECONDS, self._seconds)))
            for address, why in sorted(self._listener.unproved):
                tell_once(f"refused a process at {address}: {why}")
            for claims, refusal in self._listener.refusals:
                if claims.get("job") == self._member.job:
                    raise LaunchError(refusal, _HINT_ONE_LAUNCHER)
                tell(f"refused a process: {refusal}")
            self._listener.refusals.clear()

    def _missing(self) -> list[int]:
        return [rank for rank in range(self._member.size) if rank not in self._hellos]

    def _take(self, channel: Channel) -> None:
        rank = channel.rank
        try:
            hello = channel.receive_json(_HELLO_SECONDS)
        except OSError:  # it has left again
            channel.close()
            return
        before = self._channels.get(rank)
        if before is not None and not before.has_ended():
            self._channels[-rank] = channel
            raise self._twice(before, channel)
        if before is not None:
            before.close()
        self._channels[rank], self._hellos[rank] = channel, hello

    def _twice(self, first: Channel, second: Channel) -> LaunchError:
        where = f"from host {first.host} and from host {second.host}"
        return LaunchError(f"rank {first.rank} came twice, {where}", _HINT_ONE_LAUNCHER)

    def _too_late(self, missing: list[int]) -> LaunchError:
        there = ", ".join(f"{rank} on host {self._hellos[rank]['host']}" for rank in sorted(self._hellos))
        return LaunchError(
            f"{_ranks(missing)} of {self._member.size} did not reach rank 0 within {self._seconds:g} s; there are rank {there}",
            f"look at the output of the missing ranks: each must run, and reach {self._address}:{self._listener.port} on host "
            f"{self._member.host}; ABREAST_JOIN_SECONDS is how long to wait",
        )

    def _tell_of(self, error: BaseException) -> None:
        """Make the others end with the same error, also processes that come a little later."""
        if isinstance(error, LaunchError):
            said, deadline = {"error": error.message, "hint": error.hint}, time.monotonic() + _LINGER_SECONDS
        else:
            said, deadline = {"error": f"{self._member} ended: {error!r}", "hint": _HINT_FIRST}, 0.0
        informed = {0}
        for channel in self._channels.values():
            informed.add(channel.rank)
            _send_last(channel, said)
        while len(informed) < self._member.size and time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # no process came for a second, or it has left again
                channel = self._listener.accept(_LOOK_SECONDS)
                informed.add(channel.rank)
                channel.receive(_LOOK_SECONDS)  # its hello: a close with unread bytes would discard the sent data
                _send_last(channel, said)
                channel.close()


def _send_last(channel: Channel, said: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # it has left already
        channel.send_json(said, _LOOK_SECONDS)


def _heard(channel: Channel) -> list[dict[str, Any]]:
    """The hellos of all ranks, received from rank 0, which reports regularly while it waits for other ranks."""
    while (said := channel.receive_json(hang_seconds(), _MOST_BYTES)) == _WAIT:
        pass
    if "error" in said:
        raise LaunchError(said["error"], said.get("hint"))
    hellos: list[dict[str, Any]] = said["hellos"]
    return hellos


@contextlib.contextmanager
def _naming(channel: Channel, seconds: float) -> Iterator[None]:
    """Inside, raise `WorkerError` with rank and host if the other end of a channel is gone."""
    try:
        yield
    except OSError as error:
        raise WorkerError(f"rank {channel.rank} on host {channel.host} {_how(error, seconds)}", _HINT_FIRST) from error


def _how(error: OSError, seconds: float) -> str:
    """The end of a process in the words of `watch.py`."""
    silent = isinstance(error, TimeoutError)
    return f"has been silent for {seconds:g} s (ABREAST_HANG_SECONDS)" if silent else "has died"


def _tell_all(channels: list[Channel], messages: list[bytes]) -> None:
    lengths = json.dumps([len(each) for each in messages]).encode() + b"\n"
    whole = lengths + b"".join(messages)
    for channel in channels:
        with contextlib.suppress(OSError):  # it is gone, which its watchers notice
            channel.send(whole, hang_seconds())


def _split(whole: bytes) -> list[bytes]:
    head, _, rest = whole.partition(b"\n")
    lengths = json.loads(head)
    if isinstance(lengths, dict):
        raise WorkerError(lengths["error"], _HINT_FIRST)
    messages = []
    for length in lengths:
        messages.append(rest[:length])
        rest = rest[length:]
    return messages


def _ranks(ranks: list[int]) -> str:
    few = ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return f"rank{'' if len(ranks) == 1 else 's'} {few}"


_WAIT = {"waits": True}
_HINT_FIRST = "the first error is in the output of the process that ended first"
_HINT_ONE_LAUNCHER = (
    "start all processes of a job once, with one launcher; two jobs at a time need different values of MASTER_PORT"
)
