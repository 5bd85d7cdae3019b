"""The README's script under a launcher, one process per device, beside one process that drives all: the same weights.

The processes have torchrun's variables, and begin without torchrun. On GPUs all use deterministic kernels, because two trainings
otherwise differ by more than a launcher's fault.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from abreast import deterministic
from benchmarks.gpu import programs
from benchmarks.gpu.parts.staging import difference
from benchmarks.gpu.place import Found, Place

_MOST_DIFFERENCE = 1e-3  # of the largest weight, after two epochs in float32


def run(place: Place) -> Found:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = _begun(place, folder / "alone", programs.devices_of(place))
        codes = [programs.ended(alone, place)[0]]
        port = _free_port()
        ranks = [_begun(place, folder / f"{rank}", [], _variables(rank, port, place)) for rank in range(place.devices)]
        codes += [programs.ended(rank, place)[0] for rank in ranks]
        off = None if any(codes) else difference(*(_weights(folder / each) for each in ("0", "alone")))
    return verdict(codes, off)


def verdict(codes: list[int], off: float | None) -> Found:
    """`codes`: exit codes, that of one process for all devices first. `off`: the difference of the weights."""
    if off is None:
        return Found("", {"codes": codes}, (f"the processes ended with {', '.join(map(str, codes))}",))
    problems = [f"weights differ by {off:.1e} of the largest"] if not off < _MOST_DIFFERENCE else []
    return Found(f"{len(codes) - 1} processes, weights differ by {off:.0e}", {"difference": off}, tuple(problems))


def _begun(
    place: Place, output: Path, devices: list[str], variables: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    output.mkdir()
    words = [*devices, *programs.digits("--epochs", "2", "--output", str(output))]
    return programs.start(place, "run", *words, folder=output, variables=environment(place) | (variables or {}))


def environment(place: Place) -> dict[str, str]:
    """The variables that the processes have besides a launcher's."""
    return {} if place.simulated else deterministic.environment(os.environ)


def _variables(rank: int, port: int, place: Place) -> dict[str, str]:
    size = str(place.devices)
    ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    return ranks | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _weights(folder: Path) -> list[Any]:
    """Those of the model that the script has saved."""
    import keras

    weights: list[Any] = keras.saving.load_model(folder / "digits.keras").get_weights()
    return weights
