"""Callbacks of the campaign. Each function returns callbacks, and what a run is asked for in the end, as a function.

`folder` is where the script writes its files, and stays when a run is interrupted; `rows` are for `predict`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

Made = tuple[list[Any], Callable[[], Any]]


def _nothing() -> Any:
    return 0


def early_stopping(folder: Path, rows: Any) -> Made:
    stopping = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.4, restore_best_weights=True)
    return [stopping], lambda: [stopping.wait, stopping.stopped_epoch, stopping.best]


def plateau(folder: Path, rows: Any) -> Made:
    plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=100.0, min_lr=1e-4)
    return [plateau], lambda: [plateau.wait, plateau.best]


def schedule(folder: Path, rows: Any) -> Made:
    return [keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.8)], _nothing


def schedule_with_state(folder: Path, rows: Any) -> Made:
    class Schedule:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, epoch: int, rate: float) -> float:
            self.calls += 1
            return 0.02 / self.calls

    own = Schedule()
    return [keras.callbacks.LearningRateScheduler(own)], lambda: own.calls


def functions(folder: Path, rows: Any) -> Made:
    losses: list[float] = []
    by_epoch: dict[int, float] = {}

    def keep(epoch: int, logs: Any) -> None:
        by_epoch[epoch] = float(logs["loss"])

    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=keep, on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"]))
    )
    return [callback], lambda: [*losses, *by_epoch.values()]


def function_that_counts(folder: Path, rows: Any) -> Made:
    count = 0

    def add(batch: int, logs: Any) -> None:
        nonlocal count
        count += 1

    return [keras.callbacks.LambdaCallback(on_train_batch_begin=add)], lambda: count


def csv(folder: Path, rows: Any) -> Made:
    path = folder / "log.csv"
    return [keras.callbacks.CSVLogger(str(path))], path.read_text


def csv_append(folder: Path, rows: Any) -> Made:
    path = folder / "appended.csv"
    return [keras.callbacks.CSVLogger(str(path), append=True)], path.read_text


def best_model(folder: Path, rows: Any) -> Made:
    path = folder / "best.weights.h5"
    best = keras.callbacks.ModelCheckpoint(str(path), monitor="loss", save_best_only=True, save_weights_only=True)
    return [best], lambda: [float(best.best), path.exists()]


def backup(folder: Path, rows: Any) -> Made:
    return [keras.callbacks.BackupAndRestore(str(folder / "backup"))], _nothing


def tensorboard(folder: Path, rows: Any) -> Made:
    return [keras.callbacks.TensorBoard(str(folder / "board"), update_freq=3)], _nothing


def keeps_lists(folder: Path, rows: Any) -> Made:
    class Keeps(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.losses: list[float] = []
            self.norms: dict[str, list[Any]] = {"norm": []}
            self.step = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.step += 1
            self.losses.append(float(logs["loss"]))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.norms["norm"].append(np.float64(sum(np.abs(each).sum() for each in self.model.get_weights())))

    keeps = Keeps()
    return [keeps], lambda: [keeps.step, *keeps.losses, *keeps.norms["norm"]]


def averages_weights(folder: Path, rows: Any) -> Made:
    class Averages(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.sums: list[Any] | None = None
            self.number = 0

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            weights = [np.array(each) for each in self.model.get_weights()]
            self.sums = weights if self.sums is None else [a + b for a, b in zip(self.sums, weights, strict=True)]
            self.number += 1

    averages = Averages()
    return [averages], lambda: np.concatenate([np.ravel(each) for each in [*(averages.sums or []), averages.number]])


def anneals(folder: Path, rows: Any) -> Made:
    class Anneals(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.alpha = getattr(self.model, "alpha", 1.0) * 0.5
            for layer in self.model.layers:
                if isinstance(layer, keras.layers.BatchNormalization):
                    layer.momentum = 0.5 + 0.4 / (epoch + 1)

    anneals = Anneals()
    return [anneals], lambda: getattr(anneals.model, "alpha", 1.0)


def freezes(folder: Path, rows: Any) -> Made:
    class Freezes(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.layers[-1].trainable = False
                self.model.train_function = None
                self.model.make_train_function(force=True)

    return [Freezes()], _nothing


def rate_per_batch(folder: Path, rows: Any) -> Made:
    class Warm(keras.callbacks.Callback):  # type: ignore[misc]
        steps = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.steps += 1
            optimizer = self.model.optimizer
            if not isinstance(optimizer.learning_rate, keras.Variable):
                return
            optimizer.learning_rate = 0.03 * min(1.0, self.steps / 9)

    warm = Warm()
    return [warm], lambda: warm.steps


def draws_from_numpy(folder: Path, rows: Any) -> Made:
    class Draws(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.drawn: list[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.drawn += [float(np.random.random()), random.random()]

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.drawn.append(float(np.random.normal()))

    draws = Draws()
    return [draws], lambda: draws.drawn


def own_generator(folder: Path, rows: Any) -> Made:
    class Noise(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.generator = np.random.default_rng(2)
            self.other = random.Random(3)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            kernel = self.model.trainable_variables[0]
            noise = self.generator.normal(scale=0.01, size=kernel.shape) * self.other.random()
            kernel.assign_add(noise.astype("float32"))

    noise = Noise()
    return [noise], lambda: noise.generator.random()


def terminates(folder: Path, rows: Any) -> Made:
    return [keras.callbacks.TerminateOnNaN()], _nothing


def stops_by_hand(folder: Path, rows: Any) -> Made:
    class Stops(keras.callbacks.Callback):  # type: ignore[misc]
        number = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.number += 1
            if self.number == 13:
                self.model.stop_training = True

    stops = Stops()
    return [stops], lambda: stops.number


def evaluates(folder: Path, rows: Any) -> Made:
    class Evaluates(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.sums: list[float] = []
            self.rows: Any = None

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.sums.append(float(sum(np.sum(each) for each in keras.tree.flatten(self.predict()))))

        def predict(self) -> Any:
            return self.model.predict(rows, batch_size=7, verbose=0)

    evaluates = Evaluates()
    return [evaluates], lambda: evaluates.sums
