"""A `Case`: one training job as data, which runs the same with plain Keras and on any number of devices.

`run(case)` is plain Keras, `run(case, devices=4)` is abreast; both return every number of the contract as NumPy arrays.
`models.py`, `pieces.py`, `sources.py` and `scripts.py` define the names in a case. Imports no framework at its top:
pytest reads this file too.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, Literal

from tests.harness import precision

Results = dict[str, Any]  # name -> NumPy array; "error" -> list of strings when the job raised


@dataclass(frozen=True)
class Case:
    """All settings of a job.

    The default last batch has 3 rows, fewer than 4 devices. With 2 rows, BatchNormalization would return 1 and -1 for any rows,
    and in float32 their gradient would be little more than rounding.
    """

    model: str = "dense"
    loss: str = "sparse_categorical_crossentropy"
    reduction: str = "sum_over_batch_size"
    optimizer: str = "sgd"
    metrics: tuple[str, ...] = ()
    weighted_metrics: tuple[str, ...] = ()
    rows: int = 27
    batch_size: int = 8
    epochs: int = 2
    sample_weight: str = ""  # "random", "zeros in front": a whole shard of zeros in each batch, "by output"
    class_weight: bool = False
    validation: str = ""  # "split", "data", "dataset"
    source: str = "arrays"
    shuffle: bool = False
    steps_per_execution: int = 1
    callbacks: tuple[str, ...] = ()
    policy: str = "float32"
    jit_compile: Any = "auto"
    run_eagerly: bool = False
    script: str = "fit"
    batch_norm: Literal["global", "local"] = "global"
    prefetch: int | None = None
    entry: str = "parallelize"  # "parallelize first": before compile; "scope": made and compiled inside DataParallel

    def __str__(self) -> str:
        changed = [f for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        return "Case(" + ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in changed) + ")"


def run(case: Case, devices: int | Literal["auto"] = 0) -> Results:
    """Every number of the job. `devices` "auto" means all that are there.

    An exception becomes `{"error": [class names], "message": ..., "steps": ...}`.
    """
    import traceback

    import numpy as np

    from tests.contract.scripts import SCRIPTS, Recorder

    reset(case.policy)
    recorder = Recorder()
    try:
        job = Job(case, devices, recorder)
        return {name: np.asarray(value) for name, value in SCRIPTS[case.script](job).items()}
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        text = traceback.format_exc()
        return {"error": kinds, "message": str(error), "steps": recorder.steps, "traceback": text}


class Job:
    """The objects of a script: a compiled model with fixed weights, its data, and the arguments of `fit`."""

    def __init__(self, case: Case, devices: int | Literal["auto"], recorder: Any) -> None:
        from tests.contract import sources
        from tests.contract.pieces import CALLBACKS

        self.case = case
        self.devices = devices
        self.recorder = recorder
        self.data = sources.arrays(case, case.rows)
        self.model = self._make()
        self.callbacks = [recorder, *(CALLBACKS[name]() for name in case.callbacks)]

    def parallelize(self, model: Any) -> Any:
        if not self.devices:
            return model
        import abreast

        case = self.case
        return abreast.parallelize(model, devices=self.devices, batch_norm=case.batch_norm, prefetch=case.prefetch)

    def compile(self, model: Any) -> None:
        from tests.contract.pieces import compile_arguments

        model.compile(**compile_arguments(self.case))

    def fit_arguments(self) -> dict[str, Any]:
        from tests.contract import sources

        return sources.fit_arguments(self.case, self.data)

    def _make(self) -> Any:
        from tests.contract import models, own_models
        from tests.contract.models import set_weights

        def build() -> Any:
            model = {**models.MODELS, **own_models.MODELS}[self.case.model](self.case)
            set_weights(model)
            return model

        if self.case.entry == "scope" and self.devices:
            import abreast

            case = self.case
            with abreast.DataParallel(devices=self.devices, batch_norm=case.batch_norm, prefetch=case.prefetch):
                model = build()
                self.compile(model)
            return model
        if self.case.entry == "parallelize first":
            model = self.parallelize(build())
            self.compile(model)
            return model
        model = build()
        self.compile(model)
        return self.parallelize(model)


def reset(policy: str) -> None:
    """Begin as a new process would: names, seeds, precision."""
    import keras

    keras.utils.clear_session()
    precision.put(policy)
    keras.utils.set_random_seed(int(os.environ.get("ABREAST_TEST_SEED", "1")))
