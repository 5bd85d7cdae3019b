"""The path of rank 0's output to the driver's terminal: an actor that holds the output until it is read.

Ray's own connections carry it, with Ray's authentication. Ray's own printing, which puts the name of a worker before each line,
is off meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib

Chunk = tuple[str, bytes]  # "stdout" or "stderr" with the written bytes; or "begin" with the rank that begins
_CHUNKS = 64  # a script that writes faster than the driver prints waits


class Output:
    """The actor. Ray calls its methods, each in a coroutine."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue(_CHUNKS)
        self._written = asyncio.Event()

    async def write(self, name: str, data: bytes) -> None:
        """Add written output; returns when there is room for it."""
        await self._chunks.put((name, data))
        self._written.set()

    async def read(self, seconds: float) -> list[Chunk]:
        """The output since the last call; waits up to `seconds` seconds for some."""
        if self._chunks.empty():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._written.wait(), seconds)
        self._written.clear()
        return [self._chunks.get_nowait() for _ in range(self._chunks.qsize())]
