"""The arguments and results of a part's body: `Place`, `Found`, `Missing`. Does not import abreast, for plain Keras's process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


class Missing(Exception):
    """The machine lacks a need of a part; the text names it."""


@dataclass(frozen=True)
class Place:
    """The place where a body runs: `devices` devices of `backend`, for at most `seconds`."""

    backend: str
    devices: int
    simulated: bool
    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def judges_time(self) -> bool:
        """Whether times can show a fault. Simulated devices share their cores with other processes."""
        return not self.simulated

    def left_seconds(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def prepare(self) -> None:
        """Simulate the devices if they are not real. Call it before anything is computed."""
        if self.simulated:
            import abreast

            abreast.use_cpu_devices(self.devices)

    @property
    def kind(self) -> str:
        return "cpu" if self.simulated else "gpu"

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names in abreast."""
        return tuple(f"{self.kind}:{index}" for index in range(self.devices))

    def command_options(self) -> list[str]:
        """The option of `abreast`'s commands that simulates the devices."""
        return ["--cpu-devices", str(self.devices)] if self.simulated else []


@dataclass(frozen=True)
class Found:
    """The result of a body: a figure for the table, and `facts` for the JSON line.

    The part has passed if it has no `problems`. `absent` names what the body could not try, and why.
    """

    figure: str
    facts: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
