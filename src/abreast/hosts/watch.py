"""The watch over the processes of a job, over the connections of their meeting: it notices the ones that end, die or are silent.

Each process reports to rank 0 every second, and rank 0 sends its knowledge of all to each. The kernel closes the connection of a
process that dies, so that is known at once; a process that is stopped, or whose host is cut off, is silent. Each message has the
whole state, so their order does not matter. A thread does all of it, so it also runs during Python code that computes, and during
C code that has released the interpreter.

Not here: the reaction of a process (`backend/leaving.py`).
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from abreast.hosts.channel import Channel, keep_from_children
from abreast.hosts.meeting import Meeting

_EVERY_SECONDS = 1.0
_MOST_PAUSE_SECONDS = 5.0  # longest normal pause of this thread; after a longer one, this process itself was stopped
_CLOSE_SECONDS = 3.0
_MOST_BYTES = 1 << 20


class Watch:
    """The watch of a process over the others. It takes over the connections of `meeting`, which must not be used any more.

    `note` returns a short text of this process; `notes` has the texts of all ranks, about a second old. `look` is called in
    the watch's thread every second, and at once when a process ends or is lost.
    """

    def __init__(
        self, meeting: Meeting, silent_seconds: float, note: Callable[[], str], look: Callable[[], None]
    ) -> None:
        self.member, self._hosts = meeting.member, meeting.hosts
        self._silent_seconds, self._note, self._look = silent_seconds, note, look
        self._links = {channel.rank: _Link(channel) for channel in meeting.channels}
        self._others = [rank for rank in range(self.member.size) if rank != self.member.rank]
        self._state = threading.Condition()
        self.notes: dict[int, str] = {}
        self._left: dict[int, str] = {}  # last words by rank, in the order of arrival
        self._lost: dict[int, str] = {}
        self._closes = False
        self._wake, self._woken = socket.socketpair()
        keep_from_children(self._wake)
        keep_from_children(self._woken)
        self._thread = threading.Thread(target=self._run, name="abreast-watch", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def who(self, rank: int) -> str:
        return f"rank {rank} on host {self._hosts[rank]}"

    def lost(self) -> str | None:
        """A text on the first process that died or is silent; None without one."""
        with self._state:
            return next((f"{self.who(rank)} {how}" for rank, how in self._lost.items()), None)

    def left(self) -> dict[int, str]:
        """The last words of the processes that have left, by rank, in the order of arrival."""
        with self._state:
            return dict(self._left)

    def here(self) -> set[int]:
        """The other ranks that have not left and are not lost."""
        with self._state:
            return set(self._others) - self._left.keys() - self._lost.keys()

    def leave(self, words: str) -> None:
        """Tell all that this process ends. Only the first call's words are used."""
        with self._state:
            self._left.setdefault(self.member.rank, words)
        self._ring()

    def wait(self, until: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until a condition holds; returns whether it does."""
        with self._state:
            return self._state.wait_for(until, seconds)

    def close(self) -> None:
        """Send the remaining messages, and end. Rank 0 ends after the others, because they need its messages."""
        if self.member.rank == 0:
            self.wait(lambda: all(link.ended for link in self._links.values()), _CLOSE_SECONDS)
        self._closes = True
        self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_SECONDS)

    def flush(self) -> None:
        """Wait until the last words of this process are sent. Must not be called in the watch's thread."""
        self._ring()
        self.wait(lambda: all(link.ended or link.has_said_last for link in self._links.values()), _CLOSE_SECONDS)

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._wake.send(b"x", socket.MSG_DONTWAIT)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for link in self._links.values():
                selector.register(link.channel.socket, selectors.EVENT_READ, link)
            due = last = time.monotonic()
            while not self._closes:
                news = self._receive(selector, max(due - time.monotonic(), 0))
                now = time.monotonic()
                if now - last > min(_MOST_PAUSE_SECONDS, self._silent_seconds / 2):
                    for link in self._links.values():
                        link.heard = now
                last = now
                news = self._note_silent(now) or news
                if news or now >= due:
                    due = now + _EVERY_SECONDS
                    self._tell()
                    with self._state:
                        self._state.notify_all()
                    self._look()
            self._tell()
        for link in self._links.values():
            link.channel.close()
        self._wake.close()
        self._woken.close()

    def _receive(self, selector: selectors.BaseSelector, seconds: float) -> bool:
        """Read the messages that have arrived; returns whether they have news."""
        news = False
        for key, _ in selector.select(seconds):
            if key.data is None:
                self._woken.recv(4096)
                news = True
                continue
            link: _Link = key.data
            before = len(self._left), len(self._lost)
            for message in link.receive():
                self._learn(link.channel.rank, message)
            if link.ended:
                selector.unregister(link.channel.socket)
                self._lose(link.channel.rank, "has died")
            news = news or before != (len(self._left), len(self._lost)) or link.ended
        return news

    def _learn(self, rank: int, message: dict[str, Any]) -> None:
        with self._state:
            for name, known in (("notes", self.notes), ("left", self._left), ("lost", self._lost)):
                for about, words in message.get(name, {}).items():
                    if int(about) != self.member.rank or name == "lost":
                        known.setdefault(int(about), str(words)) if name != "notes" else known.update(
                            {int(about): str(words)}
                        )

    def _lose(self, rank: int, how: str) -> None:
        """Note that a process is gone. After its last words that is no news, except for rank 0, which still serves others."""
        with self._state:
            known = {*self._left, *self._lost}
            if rank not in known or (rank == 0 and not known.issuperset(self._others)):
                self._lost.setdefault(rank, how)

    def _note_silent(self, now: float) -> bool:
        news = False
        for rank, link in self._links.items():
            if not link.ended and now - link.heard > self._silent_seconds and rank not in self._lost:
                self._lose(rank, f"has been silent for {self._silent_seconds:g} s (ABREAST_HANG_SECONDS)")
                news = rank in self._lost
        return news

    def _tell(self) -> None:
        with self._state:
            self.notes[self.member.rank] = self._note()
            ours = {"notes": self.notes, "left": self._left, "lost": self._lost}
            if self.member.rank > 0:
                ours = {
                    name: {rank: known[rank] for rank in known if rank == self.member.rank}
                    for name, known in ours.items()
                }
            message = json.dumps(ours).encode() + b"\n"
            is_last = self.member.rank in self._left
        for link in self._links.values():
            link.send(message, is_last)


class _Link:
    """One connection, with a received incomplete line, and the bytes that could not be sent yet."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.heard = time.monotonic()
        self.ended = False
        self.has_said_last = self._is_last = False
        self._received, self._unsent = b"", b""
        channel.socket.setblocking(False)

    def receive(self) -> list[dict[str, Any]]:
        try:
            data = self.channel.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.ended = not data or len(self._received) > _MOST_BYTES
        self.heard = time.monotonic()
        *lines, self._received = (self._received + data).split(b"\n")
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            self.ended = True
            return []

    def send(self, line: bytes, is_last: bool) -> None:
        """Send a line, unless the previous one is still unsent: a later line has all of its information."""
        if not self._unsent:
            self._unsent = line
            self._is_last = is_last
        try:
            self._unsent = self._unsent[self.channel.socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:  # the next read shows that it has ended
            self._unsent = b""
        if not self._unsent and self._is_last:
            self.has_said_last = True
