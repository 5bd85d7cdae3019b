"""A thread that samples devices a few times a second, through the probes in `nvml.py` and `processor.py`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from abreast.samplers.sample import DeviceSample

_MOST_SAMPLES = 10_000
_JOIN_SECONDS = 5.0


class Sensor(Protocol):
    """A source of device samples; `note` states what it cannot measure, if anything."""

    note: str | None

    def sample(self) -> list[DeviceSample]: ...

    def close(self) -> None: ...


class Sampler:
    """Calls `probes` every `every_seconds` from `start` to `stop`; keeps the newest ten thousand samples."""

    def __init__(self, probes: Sequence[Sensor], every_seconds: float) -> None:
        self.samples: deque[DeviceSample] = deque(maxlen=_MOST_SAMPLES)
        self._probes = probes
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="abreast-sampler", daemon=True)

    @property
    def notes(self) -> list[str]:
        return [probe.note for probe in self._probes if probe.note is not None]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling. A second call does nothing."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while True:
                for probe in self._probes:
                    self.samples.extend(probe.sample())
                if self._stop.wait(self._every_seconds):
                    return
        finally:
            for probe in self._probes:
                probe.close()
