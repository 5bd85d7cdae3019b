"""`abreast.check`: trains an existing model for some steps, plainly and placed, in this process, and then restores it."""

from __future__ import annotations

import functools
import inspect
import itertools
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from abreast import parallel, placed_models
from abreast.backend.contract import BatchNorm
from abreast.checking.command import STEPS, check_steps
from abreast.checking.log import LogWriter, read
from abreast.checking.order import compare_runs
from abreast.checking.process import SideRun
from abreast.checking.recorder import EventRecorder
from abreast.checking.seeds import SEED
from abreast.checking.verdict import Verdict
from abreast.device_request import DeviceSpec
from abreast.doctor.call import FitCall
from abreast.doctor.keep import build, kept
from abreast.doctor.source_alone import SourceAlone
from abreast.doctor.trials import quiet
from abreast.errors import AbreastError, WorkerError
from abreast.state import kept_random


def check(
    model: Any,
    x: Any = None,
    y: Any = None,
    *,
    devices: DeviceSpec = "auto",
    steps: int = STEPS,
    batch_norm: BatchNorm = "global",
    **fit_arguments: Any,
) -> Verdict:
    """A verdict: whether some steps of `model.fit(x, y, **fit_arguments)` on `devices` compute what plain Keras computes.

    The model trains both ways in this process. Afterwards weights, optimizer, callbacks and random generators are as before.
    Files of `model.save` go to a folder that is deleted.

    Args:
        model: a compiled Keras model, placed by abreast or not.
        x: the data of `fit`. From a generator, `steps` batches are read, and both sides get these.
        y: the targets of `fit`, if `x` does not contain them.
        devices: `"auto"`, a number, indices or names, as in `DataParallel`.
        steps: number of steps to compare.
        batch_norm: `"global"` or `"local"` statistics of BatchNormalization.
        **fit_arguments: the other arguments of `fit`, such as `batch_size=64`.

    Returns:
        A `Verdict`, which prints as text.

    Raises:
        ModelError: the model is not compiled.
        DataError: the data source is empty or refused.
        DeviceError: the devices do not exist.
        Exception: whatever `fit` raises.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> abreast.use_cpu_devices(4)  # without GPUs
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
        >>> verdict = abreast.check(model, x, x[:, :1], devices=2, batch_size=16, steps=4)
        >>> verdict.outcome
        'equal'
    """
    check_steps(steps)
    if inspect.isgenerator(x):
        x = _KeptBatches(tuple(itertools.islice(x, steps)))
    with kept_random(model), tempfile.TemporaryDirectory(prefix="abreast-check-") as folder:
        call = FitCall.of(model, _source(x), y, **fit_arguments)
        with quiet():
            build(model, SourceAlone(call).first())
        repeated = _RepeatedFit(model, {"x": x, "y": y, **fit_arguments}, call.callbacks, Path(folder), steps)
        plain = repeated.run("plain", placed_models.nothing_placed)
        placed = repeated.run("placed", functools.partial(parallel.placed, model, devices, batch_norm=batch_norm))
        return compare_runs("the fit", plain, placed, repeated.again)


@dataclass(frozen=True)
class _KeptBatches:
    """The batches of a generator. Each side reads them from the beginning."""

    batches: tuple[Any, ...]


def _source(x: Any) -> Any:
    return (batch for batch in x.batches) if isinstance(x, _KeptBatches) else x


@dataclass(frozen=True)
class _RepeatedFit:
    """Runs the same fit any number of times, from the same weights and seeds."""

    model: Any
    arguments: dict[str, Any]
    callbacks: list[Any]
    folder: Path
    steps: int

    def run(self, name: str, around: Callable[[], AbstractContextManager[Any]], *, moves: bool = False) -> SideRun:
        folder = self.folder / name
        folder.mkdir()
        recorder = EventRecorder(LogWriter(folder), self.steps, moves=moves)
        error: dict[str, Any] | None = None
        with kept(self.model, self.callbacks), around(), quiet(), recorder.recording():
            keras.utils.set_random_seed(SEED)
            try:
                self.model.fit(**self.arguments | {"x": _source(self.arguments["x"])})
            except WorkerError:
                raise
            except AbreastError as refusal:
                error = {"kind": type(refusal).__name__, "message": str(refusal), "refused": True}
            recorder.facts |= {"backend": keras.backend.backend()} | placed_models.placement_facts()
            recorder.end()
        return SideRun(0, read(folder), recorder.facts, error)

    def again(self, moves: bool) -> SideRun:
        """Run the plain side once more."""
        return self.run("moved" if moves else "again", placed_models.nothing_placed, moves=moves)
