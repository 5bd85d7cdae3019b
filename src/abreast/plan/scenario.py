"""One training set-up in numbers: the step time of one device, the bytes to exchange, and the links. No formula is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from abreast.errors import DataError
from abreast.plan.software import EXCHANGES, LINKS, NETWORKS, SOFTWARE, Software

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Scenario:
    """A scenario. `step_seconds`: the step of one device with its own batch. Other fields: the training on several devices."""

    step_seconds: float
    num_devices: int
    num_hosts: int
    num_parameters: float
    num_tensors: int
    gradient_bytes: float  # of one exchange, on the wire
    exchange: str = "ring"
    software: str = "ddp"
    device_link: str = "pcie"
    device_bytes_per_second: float = 8e9
    network: str = "tcp"
    network_bytes_per_second: float = 1.25e9
    memory_bytes_per_second: float = 900e9
    batch_share: float = 1.0  # rows per device, as a share of the rows of `step_seconds`
    accumulation: int = 1  # micro-steps per exchange
    step_accumulation: int = 1  # micro-steps in `step_seconds`
    shares_board: bool = False  # two dies on one board, as K80 and M60
    ragged: bool = False  # the steps of replicas differ with their samples: text, detection, speech
    by_processor: bool = False  # the cores that compute also exchange

    exchanges: ClassVar[Mapping[str, str]] = EXCHANGES
    softwares: ClassVar[Mapping[str, Software]] = SOFTWARE

    def __post_init__(self) -> None:
        for name in ("step_seconds", "num_devices", "num_hosts", "num_parameters", "batch_share", "accumulation"):
            if not getattr(self, name) > 0:
                raise DataError(f"{name} is {getattr(self, name)}", "it is a number above zero")
        for name in ("gradient_bytes", "num_tensors"):
            if not getattr(self, name) >= 0:
                raise DataError(f"{name} is {getattr(self, name)}", "it is zero or more")
        if self.num_hosts > self.num_devices:
            raise DataError(
                f"{self.num_devices} devices on {self.num_hosts} hosts", "every host has at least one device"
            )
        for name, known in (
            ("exchange", self.exchanges),
            ("software", self.softwares),
            ("device_link", LINKS),
            ("network", NETWORKS),
        ):
            if getattr(self, name) not in known:
                raise DataError(f"{name} is {getattr(self, name)!r}", f"one of {', '.join(known)}")


class Scenarios:
    """Many scenarios as columns, so that one formula is fast for thousands."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._softwares = scenarios[0].softwares
        self._numbers: dict[str, Numbers] = {}
        self._words: dict[str, tuple[list[str], NDArray[np.intp]]] = {}
        for field in fields(scenarios[0]):
            column = np.array([getattr(one, field.name) for one in scenarios])
            if column.dtype.kind == "U":  # a fit looks words up thousands of times
                words, places = np.unique(column, return_inverse=True)
                self._words[field.name] = ([str(word) for word in words], places)
            else:
                self._numbers[field.name] = column.astype(float)

    def number(self, name: str) -> Numbers:
        return self._numbers[name]

    def says(self, name: str) -> NDArray[np.bool_]:
        return self._numbers[name] > 0

    def among(self, name: str, *values: str) -> NDArray[np.bool_]:
        words, places = self._words[name]
        found: NDArray[np.bool_] = np.array([word in values for word in words], bool)[places]
        return found

    def look_up(self, name: str, value: Callable[[str], float]) -> Numbers:
        """The number of the word in a column, for each scenario."""
        words, places = self._words[name]
        column: Numbers = np.array([value(word) for word in words], float)[places]
        return column

    def of_software(self, value: Callable[[Software], float]) -> Numbers:
        """A number of the software, for each scenario."""
        return self.look_up("software", lambda name: value(self._softwares[name]))
