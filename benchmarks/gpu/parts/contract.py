"""The contract on real devices: jobs trained by plain Keras on one of them and by abreast on all, with equal numbers.

The jobs are some of `tests/contract/catalogue.py`. TensorFloat-32 is off on both sides: it keeps 10 bits, and each program
chooses which products use it.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.place import Found, Place
from tests.contract.catalogue import CASES
from tests.contract.compare import Comparison, compare, relative_difference, tolerance
from tests.contract.oracle import PLAIN_IS_WRONG

# The most important first: a time limit leaves out the last. Jobs that only train have fewer programs to compile.
NAMES = (
    "convolution and batch normalization",
    "gradient accumulation",
    "mean_with_sample_weight of the losses, weights random",
    "AdamW, global_clipnorm",
    "own train_step",
    "LSTM with a mask",
    "bfloat16",
    "float16, scaled losses",
    "batch normalization and sample weights",
    "metrics of classes",
    "large, gradient accumulation",
    "attention",
    "1 row",
    "98 rows in batches of 32",
    "two inputs and two outputs",
    "saved and loaded",
    "one batch at a time",
    "source: py dataset",
    "several steps per execution",
    "validation_split",
)
# A GPU adds up in an order that changes between runs. Not measured yet, so ten times the tolerance of the CPU.
_ALLOWED_TIMES = {"cpu": 1, "gpu": 10}
_FULL_PRECISION = {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
_START_SECONDS = 15.0
Results = dict[str, Any]


def run(place: Place) -> Found:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sides = {devices: _begun(place, devices, Path(folder) / f"{devices}", NAMES) for devices in (0, place.devices)}
        codes = {devices: side.wait() for devices, side in sides.items()}
        plain, parallel = (dict(_results(Path(folder) / f"{devices}")) for devices in (0, place.devices))
        found = {
            name: compared(place, name, plain[name], parallel[name])
            for name in NAMES
            if {name} <= plain.keys() & parallel.keys()
        }
        again = [name for name, comparison in found.items() if comparison.verdict == "different"]
        own = _differences_of_plain(place, again, plain, Path(folder) / "again")
    ended = [
        f"the process with {devices or 'plain Keras'} ended with code {code}" for devices, code in codes.items() if code
    ]
    return verdict(found, own, [name for name in NAMES if name not in found], ended)


def verdict(
    found: dict[str, Comparison], own: dict[str, float], left_out: Sequence[str], ended: Sequence[str] = ()
) -> Found:
    """`own`: for jobs that differ, the difference between two runs of plain Keras. abreast may differ by twice as much."""
    bad = {
        name: one
        for name, one in found.items()
        if one.verdict == "failed" or (one.verdict == "different" and one.difference > 2 * own.get(name, 0.0))
    }
    largest = max((one.difference for name, one in found.items() if name not in bad), default=0.0)
    problems = [f"{name}: {one.verdict}, {one.difference:.1e} at {one.where}" for name, one in bad.items()]
    facts = {
        "differences": {name: [one.verdict, one.difference] for name, one in found.items()},
        "differences_of_plain_keras_to_itself": own,
        "details": {name: one.details[:2000] for name, one in bad.items()},
    }
    figure = f"{len(found) - len(bad)} of {len(found)} jobs equal, difference up to {largest:.0e}"
    absent = [f"no time for the jobs {', '.join(left_out)}"] if left_out else []
    return Found(figure, facts, (*ended, *problems, *([] if found else ["no job was compared"])), tuple(absent))


def _begun(place: Place, devices: int, path: Path, names: Sequence[str]) -> subprocess.Popen[bytes]:
    seconds = str(max(1.0, place.left_seconds() - _START_SECONDS))
    arguments = [str(path), str(devices), str(int(place.simulated)), seconds, json.dumps(names)]
    command = [sys.executable, "-m", "benchmarks.gpu.parts.contract_side", *arguments]
    return subprocess.Popen(command, env=os.environ | _FULL_PRECISION)


def _results(path: Path) -> Iterator[tuple[str, Results]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return


def compared(place: Place, name: str, plain: Results, parallel: Results) -> Comparison:
    case = CASES[name]
    without = PLAIN_IS_WRONG.get((place.backend, case.source))
    comparison = compare(plain, parallel, tolerance(case) * _ALLOWED_TIMES[place.kind], without=without)
    if comparison.verdict == "refused" and "error" not in plain:
        return Comparison("failed", where=f"refused: {comparison.where}")
    return comparison


def _differences_of_plain(
    place: Place, names: Sequence[str], plain: dict[str, Results], path: Path
) -> dict[str, float]:
    """Differences between two runs of plain Keras, if there is time: they come from the devices and not from abreast."""
    if not names or place.left_seconds() < _START_SECONDS:
        return {}
    _begun(place, 0, path, names).wait()
    return {name: _largest(plain[name], results) for name, results in _results(path)}


def _largest(one: Results, other: Results) -> float:
    if "error" in one or "error" in other:
        return 0.0
    return max((relative_difference(other[name], one[name]) for name in one), default=0.0)
