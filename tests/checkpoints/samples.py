"""Small snapshots for the tests of checkpoints, and what compares them."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from abreast.checkpoints.snapshot import Snapshot
from tests.harness.client import ROOT

MACHINE_LEARNING = [
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "int2",
    "int4",
    "uint2",
    "uint4",
]
PLAIN = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
]

VALUES: dict[str, Any] = {
    "epoch": 3,
    "step": 57,
    "nothing": None,
    "yes": True,
    "history": {"loss": [0.1, math.nan, math.inf, -math.inf, -0.0, 5e-324], "accuracy": []},
    "generator": [2**32 - 1, 2**53 - 1, 2**53, -(2**63), 2**20000],
    "text": "déjà vu \x00 \ud800 \n",
    "$dollar": {"$float": "nan", "$$": {}},
    "": {},
}


def dtype_of(name: str) -> np.dtype:
    return np.dtype(name) if name in PLAIN else np.dtype(getattr(ml_dtypes, name))


def every_type() -> dict[str, np.ndarray]:
    """A tensor of each type, with all its bytes in use where it has few."""
    found = {}
    for name in (*PLAIN, *MACHINE_LEARNING):
        dtype = dtype_of(name)
        random = np.random.Generator(np.random.PCG64(0))
        if name == "bool":
            found[name] = np.array([True, False, True])
        elif name in ("int2", "int4", "uint2", "uint4"):
            low = -(2 ** (int(name[-1]) - 1)) if name.startswith("int") else 0
            found[name] = np.arange(low, low + 2 ** int(name[-1])).astype(dtype)
        elif name.startswith(("float4", "float6")):
            found[name] = np.arange(2 ** int(name[5])).astype(np.uint8).view(dtype)
        else:
            found[name] = random.integers(0, 256, (4, 8 * dtype.itemsize), np.uint8).view(dtype)
    return found


def small(step: int = 1) -> Snapshot:
    """A small snapshot with the shapes that are special, another one for each step."""
    tensors = {
        "model/dense/kernel": np.arange(6, dtype=np.float32).reshape(2, 3) + step,
        "model/dense/bias": np.array([-1, 3], ml_dtypes.bfloat16),
        "optimizer/iteration": np.array(step, np.int64),
        "empty": np.zeros((0, 3), np.float32),
        "flag": np.array(True),
    }
    return Snapshot(tensors, {"fit": 0, "epoch": 1, "step": step, "history": {"loss": [1.5, math.nan]}})


def equal(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots have the same names in the same order, types, shapes, bits, and values."""
    return (
        list(one.tensors) == list(other.tensors)
        and all(same_bits(one.tensors[name], other.tensors[name]) for name in one.tensors)
        and list(_leaves(one.values)) == list(_leaves(other.values))
    )


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def _leaves(value: Any) -> Iterator[Any]:
    """The parts of a value with their types; NaN as text, so that it equals itself."""
    if isinstance(value, dict):
        yield "{"
        for key, each in value.items():
            yield key
            yield from _leaves(each)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for each in value:
            yield from _leaves(each)
        yield "]"
    else:
        yield type(value), repr(value) if isinstance(value, float) else value


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files below a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextlib.contextmanager
def running_job(folder: Path) -> Iterator[int]:
    """The number of a process that holds the lock of a folder until the end of the block."""
    script = (
        "import sys, time; from abreast.checkpoints.folder import FolderLock\n"
        "with FolderLock(sys.argv[1]): print(1, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as job:
        assert job.stdout is not None and job.stdout.readline()
        yield job.pid
        job.kill()
