"""Run one habit in a worker process as a user's script runs, and return its results, warnings and errors. Imports Keras late."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tests.habits.leaves import leaves

SEED = 20
_placements: dict[int, Any] = {}


@dataclass
class Ran:
    """The content of a script's `result`, by name; or its error, and the optimizer's steps until then.

    `seconds` is the processor time of this process: elapsed time would count other work on the machine.
    """

    seconds: float
    results: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    error: list[str] = field(default_factory=list)  # names of the exception's classes
    message: str = ""
    traceback: str = ""
    steps: int = 0


def run(path: str, devices: int = 0) -> Ran:
    """Run a script; with devices > 0, place every model of it, as `abreast run` does."""
    import keras

    with _as_new(keras), _placed(devices), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        started = time.process_time()
        try:
            names = _execute(path)
            seconds = time.process_time() - started
            ran = Ran(seconds, leaves(names["result"]))
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            seconds = time.process_time() - started
            ran = Ran(seconds, error=kinds, message=str(error), traceback=traceback.format_exc(), steps=_steps(error))
        ran.warnings = [str(each.message) for each in said]
    return ran


def _execute(path: str) -> dict[str, Any]:
    """The names of a script, run as `__main__`."""
    before = sys.modules["__main__"]
    module = ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    try:
        with open(path) as file:
            exec(compile(file.read(), path, "exec", dont_inherit=True), module.__dict__)
        return module.__dict__
    finally:
        sys.modules["__main__"] = before


@contextlib.contextmanager
def _as_new(keras: Any) -> Iterator[None]:
    """Keras's settings, the seeds and the folder as a new process has them, and nothing left afterwards."""
    before, folder = os.getcwd(), tempfile.TemporaryDirectory(prefix="abreast-habit-")
    os.chdir(folder.name)
    _forget(keras)
    random.seed(SEED)
    keras.utils.set_random_seed(SEED)
    try:
        yield
    finally:
        os.chdir(before)
        folder.cleanup()
        _forget(keras)


def _forget(keras: Any) -> None:
    from keras.src.backend.common import global_state

    keras.utils.clear_session()
    keras.config.set_floatx("float32")
    global_state.set_global_attribute("dtype_policy", None)  # as in a new process: then `set_floatx` decides
    keras.config.set_image_data_format("channels_last")
    keras.utils.get_custom_objects().clear()
    gc.collect()


@contextlib.contextmanager
def _placed(devices: int) -> Iterator[None]:
    """`abreast.parallel.default_placement`, kept open: on PyTorch new worker processes would take seconds per script."""
    if not devices:
        yield
        return
    from abreast import parallel, placed_models

    if devices not in _placements:
        _placements[devices] = parallel.DataParallel(devices).placement
    placed_models._default = _placements[devices]
    try:
        yield
    finally:
        placed_models._default = None


def _steps(error: BaseException) -> int:
    """Steps of the optimizer of the models that were at work when an error came."""
    models = {frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__) if _at_work(frame)}
    return max((int(model.optimizer.iterations) for model in models), default=0)  # type: ignore[union-attr]


def _at_work(frame: Any) -> bool:
    return getattr(frame.f_locals.get("self"), "optimizer", None) is not None and hasattr(
        frame.f_locals["self"].optimizer, "iterations"
    )
