"""The cells for the options of `abreast bench`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from abreast.backend.registry import BACKENDS, require
from abreast.backend_choice import choose_backend
from abreast.bench import cases
from abreast.bench.case_file import read_requests
from abreast.bench.cases import Case, Cell, Request
from abreast.device_list import CPU_DEVICES, list_devices
from abreast.errors import DataError, DeviceError


def cells_of(options: argparse.Namespace, tell: Callable[[str], None]) -> list[Cell]:
    """All cells of the request, each once. Raises `AbreastError` for an invalid request, before anything runs."""
    _check_counts(options)
    if not options.models and not options.cases:
        return []
    most, simulated = _devices(options)
    devices = cases.counts(options.devices) if options.devices else cases.doubling(most)
    defaults = Request(
        model="",
        backends=_backends(options.backend),
        devices=devices,
        batch=options.batch,
        global_batch=options.global_batch,
        precision=tuple(options.precision.split(",")),
        input=options.input,
        input_shape=cases.shape_of(options.input_shape) if options.input_shape else None,
        variants=tuple(options.variant),
        against=tuple(options.against.split(",")) if options.against else (),
    )
    requests = [Request(**vars(defaults) | {"model": model}) for model in options.models]
    if options.cases:
        requests += read_requests(Path(options.cases), defaults)
    settings = {"simulated": simulated, "rounds": options.rounds, "steps": options.steps, "warm_up": options.warm_up}
    found: dict[Case, Cell] = {}
    absent: dict[str, None] = {}
    for request in requests:
        _check_there(request, most, simulated)
        for cell in request.cells(**settings):
            found.setdefault(cell.case, cell)
        absent |= dict.fromkeys(request.absent())
    for words in absent:
        tell(words)
    return list(found.values())


def _check_counts(options: argparse.Namespace) -> None:
    for name, least in (("rounds", 1), ("steps", 1), ("warm_up", 1), ("cpu_devices", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise DataError(f"--{name.replace('_', '-')} {value}", f"give a whole number, at least {least}")
    if not options.timeout > 0:
        raise DataError(f"--timeout {options.timeout:g} is not allowed", "give seconds above 0")


def _devices(options: argparse.Namespace) -> tuple[int, bool]:
    """The number of devices, and whether they are simulated."""
    if options.cpu_devices is not None:
        return options.cpu_devices, True
    found = list_devices()
    return len(found), CPU_DEVICES in os.environ and found[0].kind == "cpu"


def _check_there(request: Request, most: int, simulated: bool) -> None:
    if max(request.devices) > most:
        hint = (
            "raise --cpu-devices" if simulated else "simulate devices with --cpu-devices N, or give a lower --devices"
        )
        raise DeviceError(f"{max(request.devices)} devices asked for, but there are {most}", hint)
    for backend in request.backends:
        if backend in BACKENDS:
            require(backend)


def _backends(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else (choose_backend(),)
