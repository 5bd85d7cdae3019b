"""Runs in a worker: trains a case of `cases.py`, whose script changes Python state at one of four moments."""

from __future__ import annotations

import importlib
import operator
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

_CASES = Path(__file__).with_name("cases.py")
NAMES = tuple(re.findall(r"^def (\w+)\(\) -> Case:", _CASES.read_text(), re.MULTILINE))
MOMENTS = ("batch", "epoch", "fits", "evaluate")
SCALES = (0.5, 0.25, 2.0, 0.125, 1.5, 0.75, 0.375, 3.0)


def train(names: Sequence[str], moment: str, devices: int = 0, as_script: bool = False, changes: bool = True) -> Any:
    """For each case: numbers that differ where a device saw an old state; the text of an error in their place."""
    return {name: _outcome(name, moment, devices, as_script, changes) for name in names}


_PATCHED = (
    *("layers.Rescaling:call", "layers.UnitNormalization:call", "layers.LeakyReLU:call", "layers.Cropping1D:factor"),
    *("layers:SCALE", "ops:hard_tanh", "ops:celu"),
)


@contextmanager
def _packages_put_back() -> Iterator[None]:
    """Undo the changes of a case in Keras and torch: other tests run in this process too."""
    import keras

    owners = [(operator.attrgetter(path)(keras), name) for path, _, name in (each.partition(":") for each in _PATCHED)]
    if "torch" in sys.modules:
        owners.append((sys.modules["torch"].nn.functional, "softsign"))
    before = [(owner, name, vars(owner).get(name)) for owner, name in owners]
    try:
        yield
    finally:
        for owner, name, value in before:
            if value is not None:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)


def _outcome(name: str, moment: str, devices: int, as_script: bool, changes: bool) -> Any:
    try:
        with _packages_put_back():
            return _train(name, moment, devices, as_script, changes)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _train(name: str, moment: str, devices: int, as_script: bool, changes: bool) -> Any:
    import keras

    keras.utils.set_random_seed(3)
    as_module = "tests.python_state.cases"
    found = runpy.run_path(str(_CASES), run_name="__main__") if as_script else vars(importlib.import_module(as_module))
    model, change = found[name]()
    if devices:
        import abreast

        abreast.parallelize(model, devices)
    scales = iter(SCALES)
    logs: list[float] = []
    _RUNS[moment](model, (lambda *_, **__: change(next(scales))) if changes else (lambda *_, **__: None), logs)
    return [*logs, *np.concatenate([weight.reshape(-1) for weight in model.get_weights()]).tolist()]


def _fit(model: Any, logs: list[float], epochs: int = 1, **hooks: Callable[..., None]) -> None:
    import keras

    x, y = _data()
    callbacks = [keras.callbacks.LambdaCallback(**hooks)]
    fitted = model.fit(x, y, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    logs += [value for values in fitted.history.values() for value in values]


def _batch(model: Any, change: Callable[..., None], logs: list[float]) -> None:
    _fit(model, logs, epochs=2, on_train_batch_end=change)


def _epoch(model: Any, change: Callable[..., None], logs: list[float]) -> None:
    _fit(model, logs, epochs=3, on_epoch_end=change)


def _fits(model: Any, change: Callable[..., None], logs: list[float]) -> None:
    for _ in range(3):
        _fit(model, logs)
        change()


def _evaluate(model: Any, change: Callable[..., None], logs: list[float]) -> None:
    _fit(model, logs)
    x, y = _data()
    for _ in range(2):
        change()
        logs += model.evaluate(x, y, batch_size=8, verbose=0, return_dict=True).values()
        logs += model.predict(x, batch_size=8, verbose=0).reshape(-1).tolist()
    change()
    logs += np.ravel(model.train_on_batch(x, y)).tolist()
    change()
    logs += np.ravel(model.train_on_batch(x, y)).tolist()


_RUNS = {"batch": _batch, "epoch": _epoch, "fits": _fits, "evaluate": _evaluate}


def _data() -> tuple[Any, Any]:
    random = np.random.default_rng(5)
    return random.normal(size=(16, 3)).astype("float32"), random.normal(size=(16, 1)).astype("float32")


def fit_with_a_generator(place: str) -> str:
    """The result of a callback that sets an object that cannot be sent, on a layer or on the loss that reads it."""
    import abreast
    from tests.python_state import cases

    model, _ = cases.loss_attribute()
    abreast.parallelize(model, 2)
    holder, name = (model.loss, "scale") if place == "loss" else (model.layers[0], "notes")
    source = (number for number in range(1))
    try:
        _fit(model, [], on_train_batch_end=lambda *_, **__: setattr(holder, name, source))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "trained"


def edits_that_travel() -> list[str]:
    """The values that are sent if a layer counts its calls and a callback acts on batches, but changes nothing."""
    from abreast.backend.torch.python_state import PythonState

    sent: list[str] = []
    looks = 0
    plain = PythonState.dump_changes

    def dump_changes(self: Any) -> Any:
        nonlocal looks
        looks += 1
        sent.extend(change.name for change in self.changes())
        return plain(self)

    PythonState.dump_changes = dump_changes  # type: ignore[method-assign]
    try:
        train(["counter_of_a_step"], "batch", devices=2, changes=False)
        train(["counter_of_a_step"], "epoch", devices=2, changes=False)
    finally:
        PythonState.dump_changes = plain  # type: ignore[method-assign]
    assert looks
    return sent


def fit_through_a_patch() -> str:
    """The result of a `fit` that the script replaced by one with an object that cannot be sent, as loggers and tracers do."""
    import keras

    import abreast
    from tests.python_state import cases

    plain, lines = keras.Model.fit, (number for number in range(9))

    def fit(self: Any, *arguments: Any, **options: Any) -> Any:
        next(lines)
        return plain(self, *arguments, **options)

    model, _ = cases.loss_attribute()
    abreast.parallelize(model, 2)
    keras.Model.fit = fit
    try:
        _fit(model, [])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        keras.Model.fit = plain
    return f"trained, {next(lines)}"
