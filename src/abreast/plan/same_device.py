"""The check that a step was measured on the planned device: another processor is refused, another GPU is announced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.errors import DataError
from abreast.plan.machine import Machine, devices, name_of_gpu
from abreast.stderr import tell


def check_same_device(path: str, case: Mapping[str, Any], measured_on: Mapping[str, Any], machine: Machine) -> None:
    """Raise `DataError` for a step of simulated devices or of a CPU in a plan for GPUs, and vice versa.

    `case` and `measured_on` come from a line of `abreast bench`.
    """
    simulated, gpus = bool(case.get("simulated")), measured_on.get("gpus") or []
    if simulated and not machine.shares_cores:
        raise DataError(
            f"{path} was measured on simulated devices, and {machine.name} has {machine.device.name}", _HINT
        )
    if not simulated and not gpus and "cpu" in measured_on and machine.device.name in devices():
        raise DataError(f"{path} was measured on a CPU, and {machine.name} has {machine.device.name}", _HINT)
    if simulated or not gpus:
        return
    if machine.shares_cores:
        raise DataError(f"{path} was measured on {gpus[0]}, and {machine.name} has no GPU", _HINT)
    if name_of_gpu(str(gpus[0])) != machine.device.name:
        tell(
            f"{path} was measured on {gpus[0]}, and {machine.name} has {machine.device.name}: the plan takes its step as it is"
        )


_HINT = (
    "measure on a device of that machine, leave the file out for a roofline, or plan the machine of the measurement: "
    "`abreast machine -o machine.json` describes it, with --cpu-devices N for simulated devices"
)
