"""A thread that asks, a few times a second, what the devices are doing. What it asks is `nvml.py` and `processor.py`.

Imports `diagnosis` and `errors`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from abreast.errors import BackendError
from abreast.samplers.sample import Sample

_MOST_SAMPLES = 10_000
_JOIN_SECONDS = 5.0


class Source(Protocol):
    """Something that can be sampled; `note` says what it cannot tell, if anything."""

    note: str | None

    def sample(self) -> list[Sample]: ...

    def close(self) -> None: ...


class Sampler:
    """Samples `sources` every `every_seconds` from `start` to `stop`; keeps the newest ten thousand."""

    def __init__(self, sources: Sequence[Source], every_seconds: float) -> None:
        if not every_seconds > 0:
            raise BackendError(f"sample_seconds={every_seconds!r}", "give a number of seconds above 0, or None")
        self.samples: deque[Sample] = deque(maxlen=_MOST_SAMPLES)
        self._sources = sources
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="abreast-sampler", daemon=True)

    @property
    def notes(self) -> list[str]:
        return [source.note for source in self._sources if source.note is not None]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it; called again, it does nothing."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while True:
                for source in self._sources:
                    self.samples.extend(source.sample())
                if self._stop.wait(self._every_seconds):
                    return
        finally:
            for source in self._sources:
                source.close()
