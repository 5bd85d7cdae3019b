"""The state after a diagnosis, and the errors for fits that cannot be diagnosed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import RemoteError, Worker, Workers
from tests.harness.differences import largest_difference


@pytest.mark.parametrize("devices", [2, pytest.param(0, marks=pytest.mark.full)])
@pytest.mark.in_turn
def test_a_diagnosis_leaves_everything_as_it_was(workers: Workers, devices: int) -> None:
    """Also the random generators: the next fit shuffles, drops and ends as if there had been no diagnosis."""
    after, without = (workers.abreast.run(fit_after, devices=devices, diagnosed=each) for each in (True, False))
    assert after["changed"] == 0.0
    assert after["callback"] == without["callback"]
    assert after["placed"] == without["placed"] == (devices > 0)
    assert (
        largest_difference(after["weights"], without["weights"]) < 1e-6
    )  # measured 0; 1e-1 with another order of rows


@pytest.mark.in_turn
def test_the_test_notices_a_fit_after_another_random_draw(jax_worker: Worker) -> None:
    """The negative control of the one above."""
    plain, other = (jax_worker.run(fit_after, devices=0, diagnosed=False, draw=each) for each in (False, True))
    assert largest_difference(plain["weights"], other["weights"]) > 1e-4


@pytest.mark.in_turn
def test_checkpoints_of_the_user_are_not_touched(jax_worker: Worker, tmp_path: Path) -> None:
    end = jax_worker.run(diagnose_with_checkpoints, folder=str(tmp_path))
    assert end["kept"] == "the best of a long run"
    assert end["left"] == ["backup", "best.keras", "first.weights.h5"]
    assert end["saves"] > 0
    assert end["files_after"] == ["after.weights.h5"]  # the model saves as before


@pytest.mark.in_turn
def test_callbacks_of_keras_neither_end_a_diagnosis_nor_write_for_the_user(jax_worker: Worker, tmp_path: Path) -> None:
    """A checkpoint named by `val_loss`, an early stop at the first epoch, a log that exists; and a callback's own list."""
    (tmp_path / "log.csv").write_text("a long run")
    end = jax_worker.run(diagnose_with_callbacks, folder=str(tmp_path))
    assert end["steps"] >= 30
    assert end["left"] == ["log.csv"]
    assert (tmp_path / "log.csv").read_text() == "a long run"
    assert end["heard"] == []


def test_a_fit_of_the_models_own_is_diagnosed_by_what_it_calls(jax_worker: Worker) -> None:
    assert jax_worker.run(diagnose_own_fit)["experiments"] >= {"as given", "same batch"}


def test_every_optimizer_of_a_model_is_put_back(jax_worker: Worker) -> None:
    assert jax_worker.run(diagnose_two_optimizers) == {"moved": True, "iterations": 0}


@pytest.mark.in_turn
def test_rows_per_second_are_those_of_a_mean_batch(jax_worker: Worker) -> None:
    """100 rows in batches of 64: 64 and 36."""
    found = jax_worker.run(diagnose_uneven)
    assert found["mean_rows"] == 50
    assert found["rows_per_second"] == pytest.approx(50 / found["step_seconds"])


@pytest.mark.alone
@pytest.mark.parametrize("steps_per_execution", [1, 4, 16])
def test_steps_are_counted_when_keras_runs_several_per_call(jax_worker: Worker, steps_per_execution: int) -> None:
    """Each of 6 steps an epoch sleeps 10 ms in its source, each of 6 validation steps 20 ms."""
    found = jax_worker.run(diagnose_many_steps, steps_per_execution=steps_per_execution)
    assert 0.010 <= found["given"] < 0.020
    assert 0.120 <= found["validation_seconds"] < 0.240


@pytest.mark.alone
def test_short_epochs_are_named(jax_worker: Worker) -> None:
    """100 ms in `on_epoch_end`, and 100 ms before the first batch of a source, every 4 steps."""
    found = jax_worker.run(diagnose_short_epochs)
    assert found["causes"][:2] == ["slow-callbacks", "short-epochs"] or found["causes"][:2] == [
        "short-epochs",
        "slow-callbacks",
    ]
    assert found["step_seconds"] == pytest.approx(found["truth"], rel=0.2)


def test_a_diagnosis_of_a_plain_model_ends_the_workers_of_its_source(jax_worker: Worker) -> None:
    assert jax_worker.run(threads_after_workers) == []


@pytest.mark.in_turn
def test_a_diagnosis_says_nothing_of_the_batches_that_its_own_fits_lose(workers: Workers) -> None:
    assert workers.abreast.run(lines_of_a_diagnosis) == []


def test_only_the_first_rows_of_large_arrays_are_changed(jax_worker: Worker) -> None:
    """100 rows of 48 bytes, of which 4800 may be changed, then 2400, then fewer than 8 batches of 5."""
    assert jax_worker.run(change_arrays, limits=[4800, 2400, 1900]) == [[100, 100], [50, 50], None]


def test_workers_that_take_turns_are_as_fast_as_one(jax_worker: Worker) -> None:
    """Each batch takes 20 ms in a lock; 16 workers begin 16 of them at once, and end them almost together."""
    assert jax_worker.run(take_turns_in_a_lock, workers=16) >= 0.020


@pytest.mark.in_turn
@pytest.mark.parametrize("where", ["callback", "source"])
def test_a_diagnosis_that_is_interrupted_leaves_the_weights(workers: Workers, where: str) -> None:
    end = workers.abreast.run(interrupted, where=where)
    assert end["kind"] == ("KeyboardInterrupt" if where == "callback" else "RuntimeError")
    assert "planted" in end["message"]
    assert end["changed"] == 0.0
    assert end["trains"]


@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        ("not a model", "ModelError", "diagnose needs a keras.Model, not a dict"),
        ("not compiled", "ModelError", "the model is not compiled"),
        ("no data", "DataError", "there is no data"),
        ("wrong argument", "TypeError", "unexpected keyword argument 'batchsize'"),
        ("few steps", "DataError", "steps=2"),
        ("empty generator", "DataError", "the data source is empty"),
        ("empty dataset", "DataError", "the data source is empty"),
        ("short generator", "DataError", "the generator ended after 7 batches"),
        ("hanging generator", "DataError", "the doctor has waited 1 s for the data source"),
        ("other structure", "DataError", "the first one had"),
    ],
)
def test_an_invalid_diagnosis_is_refused(jax_worker: Worker, what: str, kind: str, message: str) -> None:
    with pytest.raises(RemoteError, match=message) as refusal:
        jax_worker.run(diagnose_badly, what=what)
    assert kind in refusal.value.kinds
    assert kind == "TypeError" or "hint: " in refusal.value.message


@pytest.mark.in_turn
def test_a_small_run_that_ends_often_is_diagnosed(jax_worker: Worker) -> None:
    """Three batches an epoch, the last one short; several inputs; class weights; a split for validation."""
    found = jax_worker.run(diagnose_small)
    assert found["batch_rows"] == 32
    assert found["experiments"] >= {"as given", "same batch", "source alone", "no callbacks"}
    assert found["breakdown"] == pytest.approx(found["step_seconds"], rel=1e-6)
    assert "validation" in found["parts"]


def test_every_layer_is_in_float32_again_after_a_trial_in_bfloat16(jax_worker: Worker) -> None:
    end = jax_worker.run(in_bfloat16)
    assert end["during"] == {"bfloat16"}
    assert end["variables"] == {"float32"}
    assert end["after"] == {"float32"}


@pytest.fixture(scope="module")
def jax_worker() -> Any:
    worker = Worker("jax", 2)
    yield worker
    assert not worker.close()


# Bodies.


def lines_of_a_diagnosis() -> list[str]:
    import contextlib
    import io

    import keras
    import numpy as np

    import abreast

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 200

        def __getitem__(self, index: int) -> Any:
            return np.ones((8, 4), "float32"), np.zeros((8, 1), "float32")

    with abreast.DataParallel(2):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        abreast.diagnose(model, Rows(), steps=10)
    return [line for line in said.getvalue().splitlines() if line.startswith("abreast")]


def threads_after_workers() -> list[str]:
    import threading
    import time

    import keras
    import numpy as np

    import abreast

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 200

        def __getitem__(self, index: int) -> Any:
            return np.ones((8, 4), "float32"), np.zeros((8, 1), "float32")

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    before = set(threading.enumerate())
    abreast.diagnose(model, Rows(workers=3))
    deadline = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [thread.name for thread in left]


def task(devices: int = 2) -> tuple[Any, Any, Any]:
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.3), keras.layers.BatchNormalization()]
    model = keras.Sequential([*layers, keras.layers.Dense(3)])  # not built yet
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    x, y = np.random.normal(size=(640, 8)).astype("float32"), np.random.normal(size=(640, 3)).astype("float32")
    return (abreast.parallelize(model, devices=devices) if devices else model), x, y


def state(model: Any) -> list[Any]:
    import numpy as np

    return [np.array(variable) for variable in [*model.variables, *model.optimizer.variables]]


def fit_after(devices: int, diagnosed: bool, draw: bool = False) -> dict[str, Any]:
    import keras
    import numpy as np

    import abreast
    from abreast import placed_models

    model, x, y = task(devices)
    stopping = keras.callbacks.EarlyStopping("loss", patience=1, restore_best_weights=True)
    model.fit(x, y, batch_size=32, verbose=0)  # now everything is built, which reads from the source too
    before, changed = state(model), 0.0
    if diagnosed:
        abreast.diagnose(model, x, y, batch_size=32, callbacks=[stopping], steps=5, validation_split=0.1)
        changed = largest_difference(before, state(model))
    if draw:
        keras.utils.set_random_seed(8)
    attributes = {name: value for name, value in vars(stopping).items() if isinstance(value, (int, float, str))}
    placed = placed_models.placement_of(model) is not None
    model.fit(x, y, batch_size=32, verbose=0)
    weights = [np.array(weight) for weight in model.get_weights()]
    return {"changed": changed, "weights": weights, "callback": attributes, "placed": placed}


def interrupted(where: str) -> dict[str, Any]:
    import keras

    import abreast

    model, x, y = task()
    model.build((None, 8))
    model.optimizer.build(model.trainable_variables)
    before = state(model)

    def stop(batch: int, logs: Any) -> None:
        if batch == 6:
            raise KeyboardInterrupt("planted")

    def batches() -> Any:
        for _ in range(12):
            yield x[:32].copy(), y[:32].copy()
        raise RuntimeError("planted")

    data = (x, y) if where == "callback" else (batches(), None)
    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=stop)] if where == "callback" else []
    settings = {"batch_size": 32} if where == "callback" else {}
    try:
        abreast.diagnose(model, *data, callbacks=callbacks, **settings)
    except BaseException as error:
        end = {"kind": type(error).__name__, "message": str(error), "changed": largest_difference(before, state(model))}
    model.fit(x, y, batch_size=32, verbose=0)
    return end | {"trains": largest_difference(before, state(model)) > 0}


def diagnose_with_checkpoints(folder: str) -> dict[str, Any]:
    import keras

    import abreast

    root = Path(folder)
    for name in ("best.keras", "first.weights.h5"):
        (root / name).write_text("the best of a long run")
    (root / "backup").mkdir()
    model, x, y = task()
    saved = []

    class Saving(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.save_weights(str(root / "first.weights.h5"), overwrite=True)
            saved.append(epoch)

    callbacks = [
        keras.callbacks.ModelCheckpoint(str(root / "best.keras")),
        keras.callbacks.BackupAndRestore(str(root / "backup")),
        Saving(),
    ]
    abreast.diagnose(model, x, y, batch_size=32, callbacks=callbacks, steps=5)
    left, kept = sorted(path.name for path in root.iterdir()), (root / "best.keras").read_text()
    model.save_weights(str(root / "after.weights.h5"))
    after = sorted(path.name for path in root.iterdir() if path.name not in left)
    return {"left": left, "kept": kept, "saves": len(saved), "files_after": after}


def diagnose_with_callbacks(folder: str) -> dict[str, Any]:
    import keras

    import abreast

    model, x, y = task()
    heard: list[int] = []

    class Hears(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.heard = heard

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.heard.append(batch)

    hears = Hears()
    callbacks = [
        keras.callbacks.ModelCheckpoint(f"{folder}/runs/{{epoch:02d}}-{{val_loss:.2f}}.keras"),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=0, baseline=-1.0),
        keras.callbacks.CSVLogger(f"{folder}/log.csv"),
        hears,
    ]
    found = abreast.diagnose(model, x, y, batch_size=32, validation_data=(x, y), callbacks=callbacks)
    return {"steps": found.num_steps, "left": sorted(os.listdir(folder)), "heard": hears.heard}


def diagnose_own_fit() -> dict[str, Any]:
    import keras
    import numpy as np

    from abreast.doctor.diagnose import diagnose_call

    found = []

    class Mine(keras.Sequential):  # type: ignore[misc]  # Keras has no types
        def fit(self, data: Any, rounds: int) -> None:
            found.append(diagnose_call(self, data, {"epochs": rounds, "verbose": 0}, 10))

    model = Mine([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit((np.ones((256, 4), "float32"), np.ones((256, 1), "float32")), 3)
    return {"experiments": {one.name for one in found[0].experiments}}


def diagnose_two_optimizers() -> dict[str, Any]:
    import keras
    import numpy as np

    import abreast

    class Two(keras.Sequential):  # type: ignore[misc]  # Keras has no types
        def compile(self, *args: Any, **kwargs: Any) -> None:
            super().compile(*args, **kwargs)
            self.second = keras.optimizers.SGD(0.1)

    model = Two([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((256, 4), "float32"), np.ones((256, 1), "float32")
    model.build((None, 4))
    model.second.build(model.trainable_variables)

    seen = []

    class Counts(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.second.iterations.assign_add(1)
            seen.append(int(self.model.second.iterations.numpy()))

    abreast.diagnose(model, x, y, callbacks=[Counts()], steps=5, verbose=0)
    return {"moved": max(seen, default=0) > 0, "iterations": int(model.second.iterations.numpy())}


def diagnose_uneven() -> dict[str, float]:
    import abreast

    model, x, y = task(0)
    found = abreast.diagnose(model, x[:100], y[:100], batch_size=64, verbose=0)
    return {
        "mean_rows": found.mean_rows,
        "rows_per_second": found.rows_per_second,
        "step_seconds": found.step_seconds,
    }


def change_arrays(limits: list[int]) -> list[list[int] | None]:
    from unittest import mock

    import numpy as np

    from abreast.doctor import call as module

    model, _, _ = task(0)
    call = module.FitCall.of(model, np.ones((100, 2, 2, 3), "float32"), np.ones((100, 3)), batch_size=5)
    found: list[list[int] | None] = []
    for limit in limits:
        with mock.patch.object(module, "_CHANGED_BYTES", limit):
            changed = call.with_uint8(lambda x: x.astype("uint8"))
        found.append(None if changed is None else [len(changed["x"]), len(changed["y"])])
    return found


def take_turns_in_a_lock(workers: int) -> float:
    """Seconds per step of a trial with this number of workers. All batches of a wave are held until its last one is ready."""
    import threading
    import time

    import keras

    from abreast.doctor.call import FitCall
    from abreast.doctor.keep import build
    from abreast.doctor.trials import Trial, TrialRunner

    model, x, y = task(0)
    lock, wave = threading.Lock(), threading.Barrier(workers)

    class Slow(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __len__(self) -> int:
            return 4 * workers

        def __getitem__(self, index: int) -> Any:
            with lock:
                time.sleep(0.020)
            wave.wait(30)
            return x[:32], y[:32]

    call = FitCall.of(model, Slow(workers=workers, max_queue_size=workers), verbose=0)
    build(model, (x[:32], y[:32]))
    bench = TrialRunner(call, workers - 2)
    arguments = lambda: call.with_workers(workers)  # noqa: E731
    seconds = bench.run(Trial("more", "more", 32, arguments, own_source=True), workers + 1, workers - 2)
    assert seconds is not None
    return seconds


def diagnose_many_steps(steps_per_execution: int) -> dict[str, float]:
    import time

    import keras
    import numpy as np

    from abreast.doctor import once
    from abreast.doctor.call import FitCall
    from abreast.doctor.trials import Trial, TrialRunner

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __init__(self, seconds: float) -> None:
            super().__init__()
            self.seconds = seconds

        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> Any:
            time.sleep(self.seconds)
            return np.ones((8, 4), "float32"), np.zeros((8, 1), "float32")

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
    call = FitCall.of(model, Rows(0.010), validation_data=Rows(0.020), verbose=0)
    bench = TrialRunner(call, 12)
    trial = Trial("as given", "", 8, call.fit_arguments)
    bench.run(trial, 6, 12)
    given, measured = bench.run(trial, 6, 12), once.validation(call)
    assert given is not None
    assert measured is not None
    return {"given": given, "validation_seconds": measured.seconds}


def diagnose_short_epochs() -> dict[str, Any]:
    import time

    import keras
    import numpy as np

    import abreast

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __len__(self) -> int:
            return 4

        def on_epoch_begin(self) -> None:
            time.sleep(0.1)

        def __getitem__(self, index: int) -> Any:
            time.sleep(0.01)
            return np.ones((8, 4), "float32"), np.zeros((8, 1), "float32")

    class Slow(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            time.sleep(0.1)

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    found = abreast.diagnose(model, Rows(), callbacks=[Slow()], verbose=0)
    start = time.perf_counter()
    model.fit(Rows(), callbacks=[Slow()], verbose=0, epochs=10)
    truth = (time.perf_counter() - start) / 40
    return {
        "causes": [each.cause for each in found.findings],
        "step_seconds": found.step_seconds,
        "truth": truth,
    }


def diagnose_badly(what: str) -> None:
    import time

    import keras

    import abreast

    model, x, y = task()

    def batches(count: int, seconds: float = 0.0, odd: bool = False) -> Any:
        for number in range(count):
            time.sleep(seconds)
            yield ((x[:32], x[:32]) if odd and number > 4 else x[:32].copy()), y[:32].copy()

    class Empty(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __len__(self) -> int:
            return 0

    if what == "not a model":
        abreast.diagnose({}, x, y)
    elif what == "not compiled":
        abreast.diagnose(keras.Sequential([keras.layers.Dense(3)]), x, y)
    elif what == "no data":
        abreast.diagnose(model)
    elif what == "wrong argument":
        abreast.diagnose(model, x, y, batchsize=3)
    elif what == "few steps":
        abreast.diagnose(model, x, y, steps=2)
    elif what == "hanging generator":
        abreast.diagnose(abreast.parallelize(model, devices=2, input_timeout=1.0), batches(3, 3.0))
    elif what == "other structure":
        abreast.diagnose(model, batches(100, odd=True))
    else:
        count = {"empty generator": 0, "short generator": 7}.get(what)
        abreast.diagnose(model, Empty() if count is None else batches(count))


def diagnose_small() -> dict[str, Any]:
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(7)
    some, other = keras.Input((4,), name="some"), keras.Input((4,), name="other")
    hidden = keras.layers.Dense(8, "relu")(keras.layers.Concatenate()([some, other]))
    model = keras.Model([some, other], keras.layers.Dense(2)(hidden))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = {"some": np.ones((90, 4), "float32"), "other": np.ones((90, 4), "float32")}
    settings = {"batch_size": 32, "class_weight": {0: 1.0, 1: 2.0}, "validation_split": 0.1}
    diagnosis = abreast.diagnose(
        abreast.parallelize(model, devices=2), x, np.arange(90) % 2, steps=5, verbose=1, **settings
    )
    return {
        "batch_rows": diagnosis.batch_rows,
        "experiments": {one.name for one in diagnosis.experiments},
        "breakdown": sum(diagnosis.breakdown.values()),
        "parts": set(diagnosis.breakdown),
        "step_seconds": diagnosis.step_seconds,
    }


def in_bfloat16() -> dict[str, Any]:
    """The mechanics of the trial that only GPUs with tensor cores get."""
    from abreast.doctor.remedies import mixed_precision

    model, x, y = task(devices=0)
    model.fit(x, y, batch_size=32, verbose=0)
    with mixed_precision(model):
        model.train_function = None
        model.fit(x, y, batch_size=32, verbose=0)
        during = {layer.compute_dtype for layer in model.layers}
    return {
        "during": during,
        "variables": {variable.dtype for variable in model.trainable_variables},
        "after": {layer.compute_dtype for layer in model.layers},
    }
