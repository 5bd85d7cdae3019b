"""What a part's body gets and gives: `Place`, `Found`, `Missing`. Imports nothing of abreast: plain Keras's process may not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


class Missing(Exception):
    """The machine lacks something that a part needs; the text names it."""


@dataclass(frozen=True)
class Place:
    """Where a body works: on `devices` devices of `backend`, for at most `seconds`."""

    backend: str
    devices: int
    simulated: bool
    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def judges_time(self) -> bool:
        """Whether times can show a fault: simulated devices share their cores with whatever else runs."""
        return not self.simulated

    def left_seconds(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def prepare(self) -> None:
        """Simulate the devices where there are no real ones. Call it before anything is computed."""
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
    """What a body gives: a figure for the table, and `facts` for the JSON line.

    The part has passed if there are no `problems`. `absent` names what the body could not try, and why.
    """

    figure: str
    facts: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
