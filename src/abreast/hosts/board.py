"""Values under keys that every process of a job writes and all read. Rank 0 keeps them, and answers the others.

Not here: the messages themselves (`backend/exchange.py`, which has the protocol `Board`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from abreast.hosts.channel import Channel

_MOST_BYTES = 1 << 28  # limit for a message
_SECONDS = 60.0  # limit for an answer, in addition to its wait for other processes
_CLOSE_SECONDS = 10.0
_TEXT = "latin-1"  # every byte is one character


class Values:
    """The values in rank 0's memory. A thread per channel answers the other ranks."""

    def __init__(self, channels: Sequence[Channel] = ()) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._serve, args=(channel,), name="abreast-board", daemon=True)
            for channel in channels
        ]
        for thread in self._threads:
            thread.start()

    def write(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def read(self, keys: Sequence[str], seconds: float) -> list[bytes] | None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while any(key not in self._values for key in keys):
                if not self._changed.wait(deadline - time.monotonic()):
                    return None
            return [self._values[key] for key in keys]

    def erase(self, key: str) -> None:
        with self._changed:
            self._values.pop(key, None)

    def close(self) -> None:
        """Wait until the others have read their values and closed; at most 10 s."""
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self, channel: Channel) -> None:
        with contextlib.suppress(OSError):
            while True:
                channel.send_json(self._answer(**channel.receive_json(limit=_MOST_BYTES)))
        channel.close()

    def _answer(self, do: str, key: str = "", value: str = "", keys: Sequence[str] = (), seconds: float = 0.0) -> Any:
        if do == "write":
            self.write(key, value.encode(_TEXT))
        elif do == "erase":
            self.erase(key)
        elif do == "read" and (found := self.read(keys, seconds)) is not None:
            return [value.decode(_TEXT) for value in found]
        return None


class ValuesOfRank0:
    """The values as another rank reads and writes them. Reads may wait for other processes, so they have their own connection."""

    def __init__(self, channels: tuple[Channel, Channel]) -> None:
        self._for_reads, self._for_rest = channels
        self._locks = {id(channel): threading.Lock() for channel in channels}

    def write(self, key: str, value: bytes) -> None:
        self._ask(self._for_rest, do="write", key=key, value=value.decode(_TEXT))

    def read(self, keys: Sequence[str], seconds: float) -> list[bytes] | None:
        found = self._ask(self._for_reads, seconds, do="read", keys=list(keys), seconds=seconds)
        return None if found is None else [value.encode(_TEXT) for value in found]

    def erase(self, key: str) -> None:
        self._ask(self._for_rest, do="erase", key=key)

    def close(self) -> None:
        for channel in (self._for_reads, self._for_rest):
            channel.close()

    def _ask(self, channel: Channel, waits: float = 0.0, **question: Any) -> Any:
        with self._locks[id(channel)]:
            try:
                channel.send_json(question, _SECONDS)
                return channel.receive_json(waits + _SECONDS, _MOST_BYTES)
            except BaseException:  # a late answer must not be taken for the next question's
                channel.close()
                raise
