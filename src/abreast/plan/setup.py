"""The training that a user plans: a model with its step time, a machine, and the settings. All values are checked.

Most errors name an option of `abreast plan`, because users give the numbers there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from abreast.errors import DataError
from abreast.nearest import did_you_mean
from abreast.plan.gradients import Format
from abreast.plan.machine import Machine
from abreast.plan.models import Model
from abreast.plan.roofline import StepTime
from abreast.plan.software import EXCHANGES, SOFTWARE

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
MOST_DEVICES = 1_000_000
_WIDEST_SPREAD = 3
_SLOWEST = 1e6  # times as slow


@dataclass(frozen=True)
class Setup:
    """A planned training. `rows`: the batch of one device, with the time `step`; with `strong`, all devices share these rows."""

    model: Model
    machine: Machine
    step: StepTime
    rows: float
    precision: str = "fp32"
    exchange: str = "ring"
    software: str = "ddp"
    gradients: Format = Format("fp32")  # noqa: RUF009 - frozen
    accumulation: int = 1
    sync_every: int = 1
    bucket_bytes: float = 25e6  # PyTorch's; 0 sends each tensor alone
    overlap: bool = True
    one_process: bool = False
    staged: bool = True
    row_bytes: float = 0.0
    input_rows_per_second: float | None = None  # of one host
    strong: bool = False
    slow_device_link: float = 1.0
    slow_network_link: float = 1.0
    lost_share: float = 0.0
    straggler_spread: float = 0.0  # standard deviation of the logarithm of the replicas' step times

    def __post_init__(self) -> None:
        check_rows(self.rows)
        if not (math.isfinite(self.step.seconds) and self.step.seconds > 0):
            raise DataError(f"a step of {self.step.seconds:g} s", "a step takes a time above zero")
        _within("--accumulate", self.accumulation, 1, math.inf)
        _within("--sync-every", self.sync_every, 1, math.inf)
        _within("--bucket-mb", self.bucket_bytes / 1e6, 0, math.inf)
        _within("--row-bytes", self.row_bytes, 0, math.inf)
        _within("--stragglers", self.straggler_spread, 0, _WIDEST_SPREAD, "; 0.1 means step times that differ by 10 %")
        _within("--slow-link", self.slow_device_link, 1, _SLOWEST, " times as slow as the others")
        _within("--slow-network", self.slow_network_link, 1, _SLOWEST, " times as slow as the others")
        if not 0 <= self.lost_share < 1:
            raise DataError(
                f"--lost {self.lost_share:g} is not allowed", "a share of the transfers: zero or more, and below 1"
            )
        if self.input_rows_per_second is not None:
            _above_zero("--input-rate", self.input_rows_per_second)
        for name, value, known in (
            ("exchange", self.exchange, EXCHANGES),
            ("software", self.software, SOFTWARE),
            ("precision", self.precision, dict.fromkeys(PRECISIONS)),
        ):
            if value not in known:
                raise DataError(f"no {name} is called {value!r}", did_you_mean(value, known))
        if self.gradients.sparse and self.exchange != "ring":
            raise DataError("top-k gradients need an all-gather over a ring", "leave --exchange at ring")

    def on(self, machine: Machine) -> Setup:
        return replace(self, machine=machine)

    def check_devices(self, num_devices: int, num_hosts: int) -> None:
        """Raise `DataError` for devices and hosts that the machine cannot have."""
        if num_devices < 1 or num_hosts < 1 or num_devices % num_hosts:
            raise DataError(f"{num_devices} devices on {num_hosts} hosts", "give each host the same number, at least 1")
        if num_devices > MOST_DEVICES:
            raise DataError(f"{num_devices:,} devices", f"give {MOST_DEVICES:,} at most")
        per_host = num_devices // num_hosts
        if per_host > self.machine.devices_per_host:
            most = self.machine.devices_per_host
            raise DataError(f"{per_host} devices per host, but {self.machine.name} has {most}", "use more hosts")
        if num_hosts > 1 and self.machine.network is None:
            hint = 'add `"network": {"kind": "tcp", "bytes_per_second": 1.25e9}` to its JSON'
            raise DataError(f"{num_hosts} hosts, but {self.machine.name} has no network", hint)
        if self.machine.most_hosts is not None and num_hosts > self.machine.most_hosts:
            hint = "plan fewer devices, or raise most_hosts in its JSON"
            raise DataError(f"{num_hosts} hosts, but {self.machine.name} has at most {self.machine.most_hosts}", hint)


def check_rows(rows: float) -> None:
    """Raise `DataError` for an impossible batch, before a step time is computed for it."""
    _above_zero("--batch", rows)


def _above_zero(option: str, number: float) -> None:
    if not (math.isfinite(number) and number > 0):
        raise DataError(f"{option} {number:g} is not allowed", "give a number above zero")


def _within(option: str, number: float, least: float, most: float, about: str = "") -> None:
    if not (math.isfinite(number) and least <= number <= most):
        limits = f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"
        raise DataError(f"{option} {number:g} is not allowed", f"give {limits}{about}")
