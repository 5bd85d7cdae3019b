"""Bodies of the tests of resumed fits on records; they run in a worker. Imports Keras, and abreast late."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from tests.records.exact_bodies import fresh_model, records

BATCH = 5


class Interrupted(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes the records' place at the beginning of epochs; ends the training by `end` after a step, counted as Keras does."""

    def __init__(self, data: Any, at: tuple[int, int] | None, end: Callable[[], None]) -> None:
        super().__init__()
        self.data, self.at, self.end, self.epoch = data, at, end, 0
        self.begun: list[tuple[int, int, int]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        state = self.data.state()
        self.begun.append((epoch, state["epoch"], state["batch"]))
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == self.at:
            self.end()


def interrupt() -> None:
    raise KeyboardInterrupt


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def trained(
    folder: str,
    devices: int,
    saved: str,
    stops: Sequence[tuple[int, int]] = (),
    epochs: int = 3,
    save_freq: Any = "epoch",
    steps: int | None = None,
    keep_notes: bool = True,
    settings: Sequence[dict[str, Any]] = (),
    frequencies: Sequence[Any] = (),
) -> dict[str, Any]:
    """The results of a training that ends in the middle `stops` times, and each time begins again with new objects."""
    runs: list[Any] = []
    said = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(said):
        warnings.simplefilter("always")
        for number, at in enumerate([*stops, None]):
            model = fresh_model(devices)
            with records(folder, BATCH, **(settings[number] if settings else {})) as data:
                watch = Interrupted(data, at, interrupt)
                freq = frequencies[number] if frequencies else save_freq
                backup = keras.callbacks.BackupAndRestore(saved, save_freq=freq)
                history: Any = {}
                with contextlib.suppress(KeyboardInterrupt):
                    fitted = model.fit(data, epochs=epochs, callbacks=[backup, watch], steps_per_epoch=steps, verbose=0)
                    history = fitted.history
                runs.append({"begun": watch.begun, "history": history})
            if not keep_notes and at:
                drop_notes(saved)
    return {
        "weights": model.get_weights(),
        "runs": runs,
        "said": said.getvalue(),
        "warnings": [str(each.message) for each in caught if "ran out of data" in str(each.message)],
    }


def drop_notes(saved: str) -> None:
    """Leave a backup as Keras alone writes it."""
    path = Path(saved) / "training_metadata.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({name: content[name] for name in ("epoch", "batch")}))


def killed(folder: str, devices: int, saved: str, at: tuple[int, int], save_freq: Any) -> None:
    model, data = fresh_model(devices), records(folder, BATCH)
    backup = keras.callbacks.BackupAndRestore(saved, save_freq=save_freq)
    model.fit(data, epochs=3, callbacks=[backup, Interrupted(data, at, kill)], verbose=0)


class Reads:
    """A trainer without a network: its weights are the labels of the batches that its steps took."""

    built, optimizer = True, None

    def __init__(self) -> None:
        self._initial_epoch: int | None = None
        self.taken: list[list[float]] = []
        self.validated: list[list[float]] = []

    def save_weights(self, filepath: str, overwrite: bool) -> None:
        Path(filepath).write_text(json.dumps(self.taken))

    def load_weights(self, filepath: str) -> None:
        self.taken = json.loads(Path(filepath).read_text())

    def fit(
        self,
        x: Any,
        epochs: int = 1,
        callbacks: Any = None,
        validation_data: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_freq: int = 1,
    ) -> None:
        """As Keras's own `fit`."""
        from abreast.keras_private.trainers import EpochIterator

        iterator = EpochIterator(x=x, steps_per_epoch=steps_per_epoch)
        next(iter(iterator))  # as Keras builds a model
        iterator.reset()
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = keras.callbacks.CallbackList(callbacks, model=self)
        callbacks.on_train_begin()
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            callbacks.on_epoch_begin(epoch)
            for _, end, data in iterator:
                self.taken.append(data[0][1].tolist())
                callbacks.on_train_batch_end(end)
            if validation_data is not None and (epoch + 1) % validation_freq == 0:
                held_out = EpochIterator(x=validation_data, steps_per_epoch=validation_steps)
                held_out.reset()
                self.validated += [data[0][1].tolist() for _, _, data in held_out]
            callbacks.on_epoch_end(epoch)
        callbacks.on_train_end()


def reader(looked_up_early: bool = False) -> Any:
    from abreast.records.loading import fit_callback

    if looked_up_early:
        return Reads()
    kind = type("FollowingReads", (Reads,), {"fit": fit_callback._following(Reads.fit)})
    return kind()


def read(
    folder: str,
    saved: str,
    stops: Sequence[tuple[int, int]],
    save_freq: Any,
    epochs: int = 4,
    looked_up_early: bool = False,
    **arguments: Any,
) -> list[list[float]]:
    """The labels of the batches of a training that is stopped and resumed, each time with new objects."""
    with warnings.catch_warnings():
        if not arguments.get("steps_per_epoch"):
            warnings.simplefilter("error")
        for at in [*stops, None]:
            model = reader(looked_up_early)
            with records(folder, BATCH) as data, contextlib.suppress(KeyboardInterrupt):
                backup = keras.callbacks.BackupAndRestore(saved, save_freq=save_freq)
                model.fit(data, epochs=epochs, callbacks=[backup, Interrupted(data, at, interrupt)], **arguments)
            if looked_up_early:  # such a fit leaves its iterator to the garbage collector
                gc.collect()
            assert not [each for each in threading.enumerate() if each.name.startswith("abreast-decode")]
    taken: list[list[float]] = model.taken
    return taken


def left_by_an_exception(folder: str, saved: str) -> dict[str, Any]:
    """What a `fit` that is looked up early and raises leaves on its backup and its list of callbacks."""
    model = reader(looked_up_early=True)
    with records(folder, BATCH) as data:
        backup = keras.callbacks.BackupAndRestore(saved, save_freq=2)
        watch = Interrupted(data, (1, 2), interrupt)
        callbacks = keras.callbacks.CallbackList([backup, watch], model=model)
        with contextlib.suppress(KeyboardInterrupt):
            model.fit(data, epochs=3, callbacks=callbacks)
        gc.collect()  # such a fit leaves its iterator to the garbage collector
        left = "_save_model" in vars(backup)
        keras.callbacks.CallbackList([backup], model=model).on_train_begin()  # of a `fit` on other data
        after = "_save_model" in vars(backup), [type(each).__name__ for each in callbacks.callbacks]
        watch.at = None
        model.fit(data, epochs=3, callbacks=callbacks)
        gc.collect()  # such a fit leaves its iterator to the garbage collector
        return {"left": left, "after": after, "begun": watch.begun, "taken": model.taken}


def decoding_threads_after_an_exception(folder: str) -> tuple[int, int]:
    """After a `fit` that is looked up early and raises, and after the next one; without the garbage collector."""

    def count() -> int:
        return sum(each.name.startswith("abreast-decode") for each in threading.enumerate())

    gc.disable()
    try:
        with records(folder, BATCH) as data:
            watch = Interrupted(data, (0, 1), interrupt)
            with contextlib.suppress(KeyboardInterrupt):
                reader(looked_up_early=True).fit(data, callbacks=[watch])
            left = count()
            reader().fit(data)
            return left, count()
    finally:
        gc.enable()
        gc.collect()


def read_many(folder: str, saved: str, cases: Sequence[dict[str, Any]]) -> list[Any]:
    return [read(folder, f"{saved}-{number}", **case) for number, case in enumerate(cases)]


def epochs_of_fits(folder: str, fits: Sequence[dict[str, Any]], restore: Sequence[int] = ()) -> dict[str, Any]:
    """Calls of `fit` on the same records: the epoch of the records for each of its epochs, and what was said on stderr."""
    said = io.StringIO()
    found = []
    with records(folder, BATCH) as data, contextlib.redirect_stderr(said):
        if restore:
            data.restore(data.state(*restore))
        for arguments in fits:
            watch = Interrupted(data, None, interrupt)
            model = reader()
            model.fit(data, callbacks=keras.callbacks.CallbackList([watch]), **arguments)
            found.append({"begun": watch.begun, "taken": model.taken})
    return {"fits": found, "said": said.getvalue()}


def validated(folder: str, **arguments: Any) -> list[list[float]]:
    """The labels of the validation batches of a `fit`, whose records are shuffled too."""
    model = reader()
    with records(folder, BATCH) as data, records(folder, BATCH, seed=9) as held_out:
        model.fit(data, validation_data=held_out, **arguments)
    labels: list[list[float]] = model.validated
    return labels


def executions(folder: str) -> list[tuple[int, int, int]]:
    """The places at which epochs begin if Keras takes two batches at once, and three steps are wanted of four batches."""
    model = fresh_model(0)
    model.compile("sgd", "mse", steps_per_execution=2)
    with records(folder, 6) as data:
        watch = Interrupted(data, None, interrupt)
        model.fit(data, epochs=3, steps_per_epoch=3, callbacks=[watch], verbose=0)
    return watch.begun


def warned_of_another_decoder(folder: str, saved: str) -> list[str]:
    """The warnings of a `fit` that resumes with records of another decoder than its backup's."""
    for at in ((0, 2), None):
        with records(folder, BATCH) as data, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            backup = keras.callbacks.BackupAndRestore(saved, save_freq=2)
            with contextlib.suppress(KeyboardInterrupt):
                reader().fit(data, callbacks=[backup, Interrupted(data, at, interrupt)])
        path = Path(saved) / "training_metadata.json"
        if path.exists():
            path.write_text(path.read_text().replace('"cpu"', '"gpu"'))
    return [str(each.message) for each in caught]
