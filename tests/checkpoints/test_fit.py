"""A `fit` that is interrupted and goes on ends as one that was not, bit for bit on the same devices, on every backend."""

from __future__ import annotations

import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers
from tests.harness.installed import keras_is_older_than

pytestmark = pytest.mark.in_turn

STEPS = 7  # of an epoch


@pytest.mark.parametrize(
    ("interrupted_at", "every"),
    [((STEPS + 4,), 3), ((STEPS + 3, 5, 4), 2), ((STEPS, 1), "epoch")],
    ids=["in mid-epoch", "three times", "at an epoch's end"],
)
def test_an_interrupted_fit_ends_as_one_that_was_not(
    workers: Workers, tmp_path: Path, interrupted_at: tuple[int, ...], every: Any
) -> None:
    run = workers.abreast.run
    plain, _ = run(train)
    assert_equal(plain, run(train, folder=str(tmp_path), interrupted_at=interrupted_at, every=every)[0])


def test_a_fit_that_had_ended_is_not_trained_again(workers: Workers, tmp_path: Path) -> None:
    first, num_steps = workers.abreast.run(train, folder=str(tmp_path))
    second, num_again = workers.abreast.run(train, folder=str(tmp_path))
    assert (num_steps, num_again) == (3 * STEPS, 0)
    assert_equal(first, second)


def test_a_fit_goes_on_on_other_devices(workers: Workers, tmp_path: Path) -> None:
    plain, _ = workers.abreast.run(train, dropout=0.0)
    found, _ = workers.abreast.run(
        train, dropout=0.0, folder=str(tmp_path), interrupted_at=(9, 8), every=3, devices=(2, 1, 4)
    )
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


def test_what_each_device_adds_up_goes_on(workers: Workers, tmp_path: Path) -> None:
    """A sum of sums is rounded otherwise, in metrics of an epoch and in accumulated gradients."""
    plain, watched, interrupted = workers.abreast.run(add_up, folder=str(tmp_path))
    assert_equal(plain, watched)
    assert_equal(plain, interrupted)


def add_up(folder: str) -> list[dict[str, Any]]:
    """In a worker: an epoch on four devices without checkpoints, with them, and in two parts. No callback looks at its steps.

    Between the parts, a process gets a signal before its first step.
    """
    import keras

    import abreast
    from abreast.checkpoints import stop, variables, which_fit
    from abreast.checkpoints.fit import KeptFit
    from abreast.replacing import replaced

    def end(self: Any, step: int) -> None:
        step_begins(self, step)
        if step == 8:
            raise InterruptedError

    def fit(*callbacks: Any) -> dict[str, Any]:
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(5)
        model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05, gradient_accumulation_steps=5), "mse", metrics=["mae"])
        abreast.parallelize(model, 4)
        x = np.random.default_rng(1).normal(size=(150, 6)).astype("float32")
        history = model.fit(x, x[:, :1] * 2 + x[:, 1:2], batch_size=11, callbacks=list(callbacks), verbose=0).history
        found = {f"variables/{i}": np.array(each) for i, each in enumerate(variables.read(model).values())}
        return {**found, **history}

    step_begins = KeptFit.step_begins
    ends = [fit(), fit(abreast.Checkpoint(f"{folder}/watched", every=1))]
    with replaced(KeptFit, "step_begins", end), pytest.raises(InterruptedError):
        fit(abreast.Checkpoint(f"{folder}/interrupted", every=1))
    with replaced(stop, "requested", lambda: "SIGTERM"), pytest.raises(stop.Interrupted):
        fit(abreast.Checkpoint(f"{folder}/interrupted", every=1))
    return [*ends, fit(abreast.Checkpoint(f"{folder}/interrupted", every=1))]


def test_a_script_that_has_built_its_optimizer_goes_on(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(fit_with_a_built_optimizer, folder=str(tmp_path))
    assert plain == interrupted


def fit_with_a_built_optimizer(folder: str) -> list[dict[str, list[float]]]:
    """In a worker: the `History` of a model whose layers and optimizer are built before `fit`, and whose metrics are not."""
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def fit(number: int, interrupt: Interrupt) -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
        model.optimizer.build(model.trainable_variables)
        abreast.parallelize(model, 1)
        x = np.ones((8, 2), "float32")
        return model.fit(x, x[:, :1], 2, 2, verbose=0, callbacks=[interrupt, abreast.Checkpoint(folder, 1)]).history

    plain = until_it_ends(fit, ())
    shutil.rmtree(folder)
    return [plain, until_it_ends(fit, (3,))]


def test_a_model_inside_of_a_model_that_was_saved_goes_on(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(fit_twice_and_save, folder=str(tmp_path))
    assert plain == interrupted


def fit_twice_and_save(folder: str) -> list[dict[str, list[float]]]:
    """In a worker: the `History` of a second fit. Keras finds out settings of the inner model when the first one saves it."""
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def script(number: int, interrupt: Interrupt) -> Any:
        keras.utils.set_random_seed(1)
        base = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        model = keras.Sequential([keras.Input((2,)), base, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        x = np.ones((8, 2), "float32")
        saving = keras.callbacks.ModelCheckpoint(f"{folder}/model.keras")
        callbacks = [interrupt, saving, abreast.Checkpoint(f"{folder}/{len(interrupted_at)}", 1)]
        return [model.fit(x, x[:, :1], 2, 2, verbose=0, callbacks=callbacks).history for _ in range(2)][1]

    ends = []
    for interrupted_at in ((), (11,)):  # a fit has 8 steps
        ends.append(until_it_ends(script, interrupted_at))
    return ends


def test_a_fit_after_an_interrupted_one_in_the_same_process_leaves_its_checkpoints(
    workers: Workers, tmp_path: Path
) -> None:
    plain, names, again, present, refused, corrected = workers.abreast.run(
        fit_again_in_a_notebook, folder=str(tmp_path)
    )
    assert names and present == names
    assert again != plain  # it trains on, as Keras would
    assert "batch_size" in refused
    assert corrected == plain


def fit_again_in_a_notebook(folder: str) -> list[Any]:
    """In a worker: losses of an undisturbed fit; checkpoints of one that was interrupted; losses and checkpoints of one after it.

    Then, as in a new process, the error of a fit with other batches, and the losses of a corrected one.
    """
    import keras

    import abreast
    from abreast.checkpoints import which_fit
    from abreast.checkpoints.folder import checkpoint_names
    from abreast.errors import CheckpointError
    from tests.checkpoints.interrupt import Interrupt

    def made() -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return abreast.parallelize(model, 1)

    def fit(model: Any, at: int | None = None, batch_size: int = 2) -> Any:
        x = np.ones((8, 2), "float32")
        callbacks = [Interrupt(at), abreast.Checkpoint(folder, 1)] if folder else []
        return model.fit(x, x[:, :1], batch_size, 2, verbose=0, callbacks=callbacks).history["loss"]

    kept, folder = folder, ""
    plain, folder = fit(made()), kept
    which_fit.as_in_a_new_process()
    model = made()
    with pytest.raises(InterruptedError):
        fit(model, at=5)
    names = checkpoint_names(folder)
    again, present = fit(model), checkpoint_names(folder)
    which_fit.as_in_a_new_process()
    try:
        refused = str(fit(made(), batch_size=4))
    except CheckpointError as error:
        refused = str(error)
    return [plain, names, again, present, refused, fit(made())]


def test_a_second_fit_steps_as_without_checkpoints(workers: Workers, tmp_path: Path) -> None:
    assert workers.abreast.run(steps_of_two_fits, folder=str(tmp_path)) == [True, True, True]


@pytest.mark.parametrize(
    "case", ["no epochs", "begins at its end", "fewer than begun", "begins later", "limited", "NumPy's number"]
)
def test_numbers_of_epochs(workers: Workers, tmp_path: Path, case: str) -> None:
    first, second, expected = _EPOCHS[case]
    assert re.fullmatch(
        expected, workers.abreast.run(epochs_of_two_runs, folder=str(tmp_path), first=first, second=second)
    )


# The arguments of the first run, those of the second, and what both have trained.
_EPOCHS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no epochs": ({"epochs": 0}, {"epochs": 0}, r"\[\] \[\]"),
    "begins at its end": ({"epochs": 2, "initial_epoch": 2}, {"epochs": 2, "initial_epoch": 2}, r"\[\] \[\]"),
    "fewer than begun": (
        {"epochs": 4, "until": 5},
        {"epochs": 2},
        r"interrupted fit 1 was in epoch 3 \(.*, .* asked for 2",
    ),
    "begins later": ({"epochs": 4, "until": 3}, {"epochs": 4, "initial_epoch": 3}, "interrupted .*now begins after 3"),
    "limited": ({"epochs": 4, "most": 2}, {"epochs": 4, "most": 2}, r"\[0, 1\] \[0, 1\]"),
    "NumPy's number": ({"epochs": np.int64(2)}, {"epochs": np.int64(3)}, r"\[0, 1\] \[0, 1, 2\]"),
}


def epochs_of_two_runs(folder: str, first: dict[str, Any], second: dict[str, Any]) -> str:
    """In a worker: the epochs that the `History` of two runs of a script has, or the error; 2 steps are an epoch."""
    import keras

    import abreast
    from abreast.checkpoints import which_fit
    from abreast.errors import CheckpointError

    until = 0

    class Interrupt(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            nonlocal until
            until -= 1
            if until == 0:
                raise InterruptedError

    found = []
    for arguments in (first, second):
        until, most = arguments.pop("until", 0), arguments.pop("most", None)
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, activation="softmax")])
        model.compile("sgd", "categorical_crossentropy", metrics=[keras.metrics.F1Score(average=None)])
        abreast.parallelize(model, 1)
        x, y = np.ones((8, 2), "float32"), np.eye(3, dtype="float32")[np.arange(8) % 3]
        callbacks = [Interrupt(), abreast.Checkpoint(folder, 1)]
        keras.config.set_max_epochs(most)
        try:
            found.append(str(model.fit(x, y, 4, verbose=0, callbacks=callbacks, **arguments).epoch))
        except InterruptedError:
            found.append("interrupted")
        except CheckpointError as error:
            found.append(error.message)
        finally:
            keras.config.set_max_epochs(None)
    return " ".join(found)


def test_a_signal_in_a_validation_that_draws(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(fits_with_noise, folder=str(tmp_path))
    assert plain == interrupted


def fits_with_noise(folder: str) -> list[Any]:
    """In a worker: the `History` of a model whose layer draws in validations, and of one that ends in the first and goes on."""
    import keras

    import abreast
    from abreast.checkpoints import stop, which_fit
    from abreast.replacing import replaced

    class Noise(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.seeds = keras.random.SeedGenerator(3)

        def call(self, x: Any) -> Any:
            return x + keras.random.normal(keras.ops.shape(x), seed=self.seeds)

    asked: list[str] = []

    class Ask(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            asked.append("SIGTERM")

    def end(name: str) -> None:
        raise InterruptedError

    def fit(**more: Any) -> Any:
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), Noise(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        x = np.ones((8, 2), "float32")
        return model.fit(x, x[:, :1], 2, 2, verbose=0, validation_data=(x, x[:, :1]), **more).history

    plain = fit(callbacks=[Ask()])
    asked.clear()
    with (
        replaced(stop, "requested", lambda: asked[0] if asked else None),
        replaced(stop, "end", end),
        pytest.raises(InterruptedError),
    ):
        fit(callbacks=[Ask(), abreast.Checkpoint(folder)])
    return [plain, fit(callbacks=[Ask(), abreast.Checkpoint(folder)])]


@pytest.mark.parametrize("left_out", ["generators", "variables", "callbacks", "place", "metrics"])
def test_what_is_left_out_is_noticed(workers: Workers, backend: str, tmp_path: Path, left_out: str) -> None:
    if backend == "tensorflow" and left_out in ("generators", "place"):
        pytest.skip("tf.data draws the same order from its seeds anyway")
    if (backend, left_out) == ("jax", "generators") and not keras_is_older_than("3.16"):
        pytest.skip("Keras 3.16 draws the order from the epoch's number")
    plain, _ = workers.abreast.run(train)
    found, _ = workers.abreast.run(
        train, folder=str(tmp_path), interrupted_at=(2 * STEPS + 4,), every=3, left_out=left_out
    )
    assert any(not np.array_equal(plain[name], found[name]) for name in plain)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch_size": 8}, "the data source is not that of the checkpoint .*: batch_size was 4, and is 8"),
        (
            {"units": 3},
            r"the checkpoint has model/.*/kernel of shape \(2, 1\), where this model has .* of shape \(2, 3\)",
        ),
        ({"optimizer": "adam"}, "the checkpoint has optimizer/sgd"),
        ({"loss": "mae"}, "the model is not that of the checkpoint .*: .*loss"),
        ({"framework": "tensorfire"}, "the checkpoint .* was written with tensorfire, and Keras uses"),
        ({"layout": 0}, "the checkpoint .* was written by another version of abreast"),
        ({"epochs": 1}, "fit 1 had ended after 2 epochs .*, and is now asked for 1"),
        ({"callback": True}, "the checkpoint has the callbacks none; this fit has EarlyStopping"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_training_is_refused_by_name(
    workers: Workers, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    assert re.search(message, workers.abreast.run(go_on_with_another, folder=str(tmp_path), changed=changed))


def go_on_with_another(folder: str, changed: dict[str, Any]) -> str:
    """In a worker: the error of a `fit` that finds checkpoints of another one; its weights stay."""
    import keras

    import abreast
    from abreast.checkpoints import fingerprint, which_fit
    from abreast.errors import CheckpointError
    from abreast.replacing import replaced

    def fit(
        epochs: int = 2, batch_size: int = 4, units: int = 1, optimizer: str = "sgd", loss: str = "mse", **more: Any
    ) -> Any:
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
        model.compile(optimizer, loss)
        abreast.parallelize(model, 1)
        x = np.ones((8, 2), "float32")
        before = model.get_weights()
        callbacks = [keras.callbacks.EarlyStopping("loss")] if "callback" in more else []
        try:
            model.fit(
                x, x[:, :1], batch_size, epochs, verbose=0, callbacks=[*callbacks, abreast.Checkpoint(folder, "epoch")]
            )
        finally:
            if changed_now:
                assert all(np.array_equal(one, other) for one, other in zip(before, model.get_weights(), strict=True))

    changed_now = False
    written = {"backend": changed.pop("framework", None), "layout": changed.pop("layout", None)}
    written = {name: value for name, value in written.items() if value is not None}
    with replaced(fingerprint, "take", _by_another(fingerprint.take, written)) if written else nullcontext():
        fit()
    changed_now = True
    try:
        fit(**changed)
    except CheckpointError as error:
        return str(error)
    raise AssertionError("it was not refused")


def _by_another(plain: Any, written: dict[str, Any]) -> Any:
    return lambda *arguments: {**plain(*arguments), **written}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("patience", "a callback is not that of the checkpoint .*EarlyStopping.patience .* was 5, and is 7"),
        ("more epochs, and a later fit", "fit 1 is to train, and a later one has a checkpoint already: fit0002"),
        (
            "more epochs after the best weights",
            "fit 1 had ended after 2 epochs, with weights that a callback set at its end",
        ),
    ],
)
def test_what_cannot_go_on_is_refused(workers: Workers, tmp_path: Path, case: str, message: str) -> None:
    assert re.search(message, workers.abreast.run(go_on_after_the_end, folder=str(tmp_path), case=case))


def go_on_after_the_end(folder: str, case: str) -> str:
    """In a worker: the error of a script that runs again with another setting."""
    import keras

    import abreast
    from abreast.checkpoints import which_fit
    from abreast.errors import CheckpointError

    best = case == "more epochs after the best weights"

    def script(epochs: int, patience: int, fits_in_all: int) -> None:
        which_fit.as_in_a_new_process()
        x = np.ones((8, 2), "float32")
        for _ in range(fits_in_all):
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile(keras.optimizers.SGD(2.0 if best else 0.01), "mse")
            abreast.parallelize(model, 1)
            stopping = keras.callbacks.EarlyStopping("loss", patience=patience, restore_best_weights=best)
            model.fit(x, x[:, :1], 4, epochs, verbose=0, callbacks=[stopping, abreast.Checkpoint(folder, "epoch")])

    script(2, 5, 2 if "later" in case else 1)
    try:
        script(3, 7 if case == "patience" else 5, 1)
    except CheckpointError as error:
        return str(error)
    raise AssertionError("it was not refused")


def test_a_second_fit_on_a_generator_begins_where_the_first_had_ended(workers: Workers, tmp_path: Path) -> None:
    plain, again = workers.abreast.run(share_a_generator, folder=str(tmp_path))
    assert plain == again


def share_a_generator(folder: str) -> list[list[float]]:
    """In a worker: the losses of the second `fit` on a generator, and those after the first had ended in an earlier run."""
    import keras

    import abreast
    from abreast.checkpoints import which_fit

    def fit(num_fits: int, *callbacks: Any) -> list[float]:
        def batches() -> Any:
            for number in range(1000):
                yield np.full((2, 1), number, "float32"), np.ones((2, 1), "float32")

        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e-4), "mse")
        abreast.parallelize(model, 1)
        source = batches()
        for _ in range(num_fits):
            history = model.fit(source, epochs=2, steps_per_epoch=3, verbose=0, callbacks=list(callbacks))
        return list(history.history["loss"])

    plain = fit(2)
    fit(1, abreast.Checkpoint(folder))
    return [plain, fit(2, abreast.Checkpoint(folder))]


def test_a_validation_goes_on_where_two_interrupted_runs_have_not_begun_it(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(validate_on_a_generator, folder=str(tmp_path))
    assert plain == interrupted


def validate_on_a_generator(folder: str) -> list[list[float]]:
    """In a worker: losses on a generator, with and without two ends before the second validation. Keras repeats two batches."""
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def fit(number: int, *callbacks: Any) -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e-4), "mse")
        abreast.parallelize(model, 1)
        x = np.ones((8, 1), "float32")
        held_out = ((np.full((2, 1), number, "float32"), x[:2]) for number in range(100))
        settings: dict[str, Any] = {"validation_data": held_out, "validation_steps": 3, "callbacks": list(callbacks)}
        losses: list[float] = model.fit(x, x, 2, 3, verbose=0, **settings).history["val_loss"]
        return losses

    def checkpointed(number: int, interrupt: Interrupt) -> list[float]:
        return fit(number, interrupt, abreast.Checkpoint(folder, every=1))

    return [fit(0), until_it_ends(checkpointed, (5, 2))]


@pytest.mark.parametrize("counts_in", ["on_train_batch_begin", "on_train_batch_end"])
@pytest.mark.parametrize(("last_step", "fails_in"), [(5, "on_test_begin"), (3, "on_train_batch_begin")])
def test_a_callback_that_stops_at_the_repeated_step_ends_no_epoch_early(
    workers: Workers, tmp_path: Path, last_step: int, fails_in: str, counts_in: str
) -> None:
    plain, interrupted = workers.abreast.run(
        stop_after_a_number_of_steps, folder=str(tmp_path), last_step=last_step, fails_in=fails_in, counts_in=counts_in
    )
    assert plain == interrupted


def stop_after_a_number_of_steps(folder: str, last_step: int, fails_in: str, counts_in: str) -> list[list[float]]:
    """In a worker: losses of a training of four steps an epoch that stops after a step, and of one that failed a step before."""
    import keras

    import abreast
    from abreast.checkpoints import which_fit

    class Stops(keras.callbacks.Callback):  # type: ignore[misc]
        number, fails = 0, False

        def act(self, hook: str) -> None:
            if Stops.fails and hook == fails_in and self.number == last_step - 1:
                raise InterruptedError
            if hook == counts_in:
                self.number += 1
                if self.number == last_step:
                    self.model.stop_training = True

    for hook in (fails_in, counts_in):
        setattr(Stops, hook, lambda self, *_, hook=hook, **__: self.act(hook))

    def fit(*callbacks: Any) -> list[float]:
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        x = np.arange(8, dtype="float32")[:, None]
        settings: dict[str, Any] = {"validation_data": (x, x), "callbacks": [Stops(), *callbacks]}
        return list(model.fit(x, x, 2, 3, verbose=0, **settings).history["loss"])

    plain = fit()
    Stops.fails = True
    with pytest.raises(InterruptedError):
        fit(abreast.Checkpoint(folder, every=last_step - 1))
    Stops.fails = False
    return [plain, fit(abreast.Checkpoint(folder, every=last_step - 1))]


@pytest.mark.parametrize(("width", "devices"), [(400, 3), (400, 2), (3, 3)])
def test_sums_in_another_order_after_a_restart_are_announced(
    workers: Workers, tmp_path: Path, width: int, devices: int
) -> None:
    said = workers.abreast.run(go_on_with_many_weights, folder=str(tmp_path), width=width, devices=devices)
    is_rounded = workers.backend == "torch" and (width, devices) == (400, 3)
    assert [each.partition(":")[0] for each in said] == (
        ["the first steps add up the gradients of the devices in another order"] if is_rounded else []
    )


def go_on_with_many_weights(folder: str, width: int, devices: int) -> list[str]:
    """In a worker: what is said where a training with layers of a width goes on."""
    import keras

    import abreast
    from abreast.checkpoints import which_fit
    from abreast.replacing import replaced
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def fit(number: int, interrupt: Interrupt) -> None:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((width,)), keras.layers.Dense(width), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, devices)
        x = np.ones((6, width), "float32")
        model.fit(x, x[:, :1], 3, 2, verbose=0, callbacks=[interrupt, abreast.Checkpoint(folder, every=1)])

    said: list[str] = []
    with replaced(which_fit, "tell_once", said.append):
        until_it_ends(fit, (2,))
    return said


@pytest.mark.parametrize("holder", ["loss", "default of a function"])
def test_a_variable_of_a_loss_goes_on(workers: Workers, tmp_path: Path, holder: str) -> None:
    """On JAX, the compiled step of the first run keeps the former value, which is announced."""
    undisturbed, interrupted, ended, said = workers.abreast.run(change_a_loss, folder=str(tmp_path), holder=holder)
    assert interrupted["factor"] == ended["factor"] == undisturbed["factor"] == 2.0
    assert interrupted["evaluate"] == undisturbed["evaluate"] or workers.backend == "jax"
    assert ended == interrupted
    if workers.backend == "jax":
        assert said and "factor has changed, and the training step may be compiled with its former value" in said[0]
    else:
        assert interrupted["loss"] == undisturbed["loss"]
        assert not said


def change_a_loss(folder: str, holder: str) -> list[Any]:
    """In a worker: a fit whose loss has a variable that a callback sets: undisturbed, interrupted after that, and then ended."""
    import keras

    import abreast
    from abreast.checkpoints import compiled_step
    from abreast.replacing import replaced
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Scaled(keras.losses.Loss):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.factor = keras.Variable(1.0, trainable=False)

        def call(self, y: Any, predicted: Any) -> Any:
            return keras.ops.mean(keras.ops.square(y - predicted) * self.factor, axis=-1)

    class Changes(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                held_by(self.model.loss).assign(2.0)

    def held_by(loss: Any) -> Any:
        return loss.factor if holder == "loss" else loss.__defaults__[0]

    def function(y: Any, predicted: Any, factor: Any) -> Any:
        return keras.ops.mean(keras.ops.square(y - predicted) * factor, axis=-1)

    def run(*more: Any) -> dict[str, Any]:
        keras.utils.clear_session()
        keras.utils.set_random_seed(4)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        factor = keras.Variable(1.0, trainable=False)
        model.compile(
            "sgd", Scaled() if holder == "loss" else lambda y, predicted, factor=factor: function(y, predicted, factor)
        )
        abreast.parallelize(model, 2)
        x = np.linspace(-1, 1, 24, dtype="float32").reshape(8, 3)
        options = {"batch_size": 4, "shuffle": False, "verbose": 0, "callbacks": [Changes(), *more]}
        losses = model.fit(x, x[:, :1], epochs=3, **options).history["loss"]
        factor_at_end = float(held_by(model.loss))
        return {"loss": losses, "factor": factor_at_end, "evaluate": model.evaluate(x, x[:, :1], verbose=0)}

    def checkpointed(number: int, interrupt: Interrupt) -> dict[str, Any]:
        return run(interrupt, abreast.Checkpoint(folder, every="epoch"))

    undisturbed = run(Interrupt(None))
    said: list[str] = []
    with replaced(compiled_step, "tell_once", said.append):
        interrupted, ended = until_it_ends(checkpointed, (4,)), until_it_ends(checkpointed, ())
    return [undisturbed, interrupted, ended, said]


def test_the_walk_over_a_deep_model_reads_its_variables_a_few_times(workers: Workers) -> None:
    """Once per layer would be seconds for some hundreds of layers."""
    assert workers.abreast.run(reads_of_own_variables) <= 6


def reads_of_own_variables() -> int:
    """In a worker: the number of times that two reads of what a model of 30 layers reaches list the model's variables."""
    import keras

    from abreast import state
    from abreast.checkpoints import reached
    from abreast.replacing import replaced

    model = keras.Sequential([keras.Input((2,)), *(keras.layers.Dense(2) for _ in range(30))])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(np.ones((4, 2)), np.ones((4, 2)), verbose=0)
    reads: list[Any] = []

    def noted(model: Any) -> Any:
        reads.append(model)
        return state.grouped_variables(model)

    with replaced(reached, "grouped_variables", noted):
        code = reached.code_of_steps(model)
        reached.Reached(code, model, (), in_steps=code).read()
        reached.data_of_steps(model)
    return len(reads)


def test_an_attribute_that_changes_in_a_later_fit_is_announced(workers: Workers, tmp_path: Path) -> None:
    """The step of the first fit is compiled with its former value, that of a restart in the second one with the present one."""
    said = workers.abreast.run(anneal_in_a_second_fit, folder=str(tmp_path))
    is_compiled = workers.backend != "torch"
    assert [each.partition(", and")[0] for each in said] == ["BatchNormalization.momentum has changed"] * is_compiled


def anneal_in_a_second_fit(folder: str) -> list[str]:
    """In a worker: what is said where a callback sets an attribute before the first step of a second fit."""
    import keras

    import abreast
    from abreast.checkpoints import compiled_step
    from abreast.replacing import replaced

    class Anneals(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.layers[0].momentum = 0.5 + 0.4 / (epoch + 1)

    model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization(momentum=0.9), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, 2)
    x = np.ones((8, 3), "float32")
    said: list[str] = []
    with replaced(compiled_step, "tell_once", said.append):
        for epoch in range(2):
            callbacks = [Anneals(), abreast.Checkpoint(folder, every=100)]
            model.fit(x, x[:, :1], initial_epoch=epoch, epochs=epoch + 1, verbose=0, callbacks=callbacks)
    return said


@pytest.mark.torch
def test_a_wrapped_module_goes_on_in_a_second_fit(workers: Workers, tmp_path: Path) -> None:
    """A restart does not train in the first fit, so the module is not in the mode that a training leaves."""
    if workers.backend != "torch":
        pytest.skip("for PyTorch's modules")
    plain, interrupted = workers.abreast.run(fit_a_module_twice, folder=str(tmp_path))
    assert plain == interrupted


def fit_a_module_twice(folder: str) -> list[list[float]]:
    """In a worker: the losses of a second fit, without an end and with one."""
    import keras
    import torch

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def fit(number: int, *callbacks: Any) -> list[float]:
        keras.utils.set_random_seed(1)
        module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        layers = [keras.layers.TorchModuleWrapper(module, output_shape=(None, 4)), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        x = np.random.default_rng(1).normal(size=(8, 3)).astype("float32")
        for _ in range(2):
            losses: list[float] = model.fit(x, x[:, :1], 2, 1, verbose=0, callbacks=list(callbacks)).history["loss"]
        return losses

    def checkpointed(number: int, interrupt: Interrupt) -> list[float]:
        return fit(number, interrupt, abreast.Checkpoint(folder, every=1))

    return [fit(0), until_it_ends(checkpointed, (6,))]


@pytest.mark.torch
@pytest.mark.parametrize("devices", [1, 2])
def test_gradients_that_an_own_step_adds_up_go_on(workers: Workers, tmp_path: Path, devices: int) -> None:
    if workers.backend != "torch":
        pytest.skip("other frameworks keep no gradients between two steps")
    plain, interrupted = workers.abreast.run(accumulate_by_hand, folder=str(tmp_path), devices=devices)
    assert plain == interrupted


def accumulate_by_hand(folder: str, devices: int) -> list[list[list[float]]]:
    """In a worker: weights of a `train_step` that sets them in every second step, without an end and with two ends."""
    import keras
    import torch

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Accumulates(keras.Sequential):  # type: ignore[misc]
        steps = 0

        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            loss = self.compute_loss(x, y, self(x))
            loss.backward()
            self.steps += 1
            if self.steps % 2 == 0:
                weights = self.trainable_weights
                with torch.no_grad():
                    self.optimizer.apply([weight.value.grad for weight in weights], weights)
                self.zero_grad()
            return {"loss": loss}

    def fit(number: int, *callbacks: Any) -> list[list[float]]:
        keras.utils.set_random_seed(1)
        model = Accumulates([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, devices)
        x = np.random.default_rng(1).normal(size=(14, 3)).astype("float32")
        model.fit(x, x[:, :1], 4, 2, shuffle=False, verbose=0, callbacks=list(callbacks))
        return [weight.tolist() for weight in model.get_weights()]

    def checkpointed(number: int, interrupt: Interrupt) -> list[list[float]]:
        return fit(number, interrupt, abreast.Checkpoint(folder, every=1))

    return [fit(0), until_it_ends(checkpointed, (1, 2))]


def test_what_is_put_back_stays_where_no_step_follows(workers: Workers, tmp_path: Path) -> None:
    """Keras looks for another step of a source of unknown length, and on JAX then sets the state of the last one."""
    plain, interrupted = workers.abreast.run(end_after_the_last_batch, folder=str(tmp_path))
    assert plain == interrupted


def end_after_the_last_batch(folder: str) -> list[dict[str, list[float]]]:
    """In a worker: histories of trainings whose rate each epoch changes, without an end and with one after the last batch."""
    import grain
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    rows = [(np.array([number], "float32"), np.ones(1, "float32")) for number in range(6)]
    batches = grain.MapDataset.source(rows).batch(2).to_iter_dataset()

    def fit(number: int, *callbacks: Any) -> dict[str, list[float]]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        abreast.parallelize(model, 1)
        rate = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.5 * rate)
        history: dict[str, list[float]] = model.fit(batches, epochs=3, verbose=0, callbacks=[rate, *callbacks]).history
        return history

    def checkpointed(number: int, interrupt: Interrupt) -> dict[str, list[float]]:
        return fit(number, interrupt, abreast.Checkpoint(folder, every=1))

    return [fit(0), until_it_ends(checkpointed, (3,))]


def test_a_later_fit_without_a_checkpoint_begins_as_it_did(workers: Workers, tmp_path: Path) -> None:
    """The first fit is not trained again, and its model is compiled anew: on PyTorch, that seeds the other devices."""
    plain, interrupted = workers.abreast.run(fit_and_tune, folder=str(tmp_path))
    assert plain == interrupted


def fit_and_tune(folder: str) -> list[list[float]]:
    """In a worker: losses of a second fit with random layers, without an end and with one before its first checkpoint."""
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def fit(number: int, *callbacks: Any) -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
        abreast.parallelize(model, 2)
        x = np.random.default_rng(1).normal(size=(16, 8)).astype("float32")
        for rate in (0.1, 0.01):
            model.compile(keras.optimizers.SGD(rate), "mse")
            losses: list[float] = model.fit(x, x[:, :1], 4, 1, verbose=0, callbacks=list(callbacks)).history["loss"]
        return losses

    def checkpointed(number: int, interrupt: Interrupt) -> list[float]:
        return fit(number, interrupt, abreast.Checkpoint(folder, every=100))

    return [fit(0, Interrupt(None)), until_it_ends(checkpointed, (6,))]


def test_what_devices_add_up_in_a_validation_is_not_what_metrics_were_before(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(stop_in_a_later_validation, folder=str(tmp_path))
    assert plain == interrupted


def stop_in_a_later_validation(folder: str) -> list[list[dict[str, list[float]]]]:
    """In a worker: histories of two fits on two devices, without a signal and with one in the second one's first validation.

    No callback looks at the steps: each device goes on adding up its own.
    """
    import keras

    import abreast
    from abreast.checkpoints import stop, which_fit
    from abreast.checkpoints.fit import KeptFit
    from abreast.replacing import replaced

    def fit(*callbacks: Any) -> list[dict[str, list[float]]]:
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
        abreast.parallelize(model, 2)
        x = np.random.default_rng(1).normal(size=(12, 3)).astype("float32")
        settings: dict[str, Any] = {"validation_data": (x[::-1], x[:, :1]), "verbose": 0, "callbacks": list(callbacks)}
        return [model.fit(x, x[:, :1], 4, 2, **settings).history for _ in range(2)]

    steps: list[int] = []

    def count(self: Any) -> None:
        steps.append(1)
        validation_step_begins(self)

    validation_step_begins = KeptFit.validation_step_begins
    plain = fit()
    # Each validation has three steps, and each fit has two: the eighth step is one of the second fit's first.
    asked = replaced(stop, "requested", lambda: "SIGTERM" if len(steps) == 8 else None)
    with replaced(KeptFit, "validation_step_begins", count), asked, pytest.raises(stop.Interrupted):
        fit(abreast.Checkpoint(folder, every=100))
    return [plain, fit(abreast.Checkpoint(folder, every=100))]


def test_sums_of_an_epoch_that_is_over_are_not_written_to_the_next(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(add_up_to_the_last_batch, folder=str(tmp_path))
    assert plain == interrupted


def add_up_to_the_last_batch(folder: str) -> list[dict[str, list[float]]]:
    """In a worker: histories on two devices, without an end and with one after the last batch of a source of unknown length.

    No callback looks at the steps. The second process gets a signal where the next epoch begins.
    """
    import grain
    import keras

    import abreast
    from abreast.checkpoints import stop, which_fit
    from abreast.checkpoints.fit import KeptFit
    from abreast.replacing import replaced

    rows = [(np.array([number], "float32"), np.ones(1, "float32")) for number in range(12)]
    batches = grain.MapDataset.source(rows).batch(4).to_iter_dataset()

    def fit(*callbacks: Any) -> dict[str, list[float]]:
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
        abreast.parallelize(model, 2)
        history: dict[str, list[float]] = model.fit(batches, epochs=2, verbose=0, callbacks=list(callbacks)).history
        return history

    def end(self: Any, step: int) -> None:
        step_begins(self, step)
        if step == 3:
            raise InterruptedError

    def ask(self: Any, epoch: int) -> None:
        asked.append(epoch)
        epoch_begins(self, epoch)

    step_begins, epoch_begins, asked = KeptFit.step_begins, KeptFit.epoch_begins, list[int]()
    plain = fit()
    with replaced(KeptFit, "step_begins", end), pytest.raises(InterruptedError):
        fit(abreast.Checkpoint(folder, every=1))
    request = replaced(stop, "requested", lambda: "SIGTERM" if asked and asked[-1] else None)
    with replaced(KeptFit, "epoch_begins", ask), request, pytest.raises(stop.Interrupted):
        fit(abreast.Checkpoint(folder, every=100))
    return [plain, fit(abreast.Checkpoint(folder, every=100))]


def test_a_source_that_shuffles_at_the_end_of_an_epoch_does_so_once(workers: Workers, tmp_path: Path) -> None:
    plain, interrupted = workers.abreast.run(shuffle_in_a_hook, folder=str(tmp_path))
    assert plain == interrupted


def shuffle_in_a_hook(folder: str) -> list[list[float]]:
    """In a worker: the losses of a `fit` that ends in its first validation, where a checkpoint has just been taken."""
    import keras

    import abreast
    from abreast.checkpoints import which_fit

    class Shuffled(keras.utils.PyDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.order = list(range(6))
            self.draws = np.random.default_rng(3)

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            rows = self.order[2 * index : 2 * index + 2]
            return np.array(rows, "float32")[:, None], np.ones((2, 1), "float32")

        def on_epoch_end(self) -> None:
            self.draws.shuffle(self.order)

    class Ends(keras.callbacks.Callback):  # type: ignore[misc]
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            raise InterruptedError

    def fit(*callbacks: Any) -> list[float]:
        which_fit.as_in_a_new_process()
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.02), "mse")
        abreast.parallelize(model, 1)
        x = np.ones((2, 1), "float32")
        history = model.fit(Shuffled(), epochs=3, validation_data=(x, x), verbose=0, callbacks=list(callbacks))
        return list(history.history["loss"])

    plain = fit()
    with pytest.raises(InterruptedError):
        fit(Ends(), abreast.Checkpoint(folder, every=3))

    class Ended(keras.callbacks.Callback):  # type: ignore[misc]
        pass

    Ended.__qualname__ = Ends.__qualname__
    return [plain, fit(Ended(), abreast.Checkpoint(folder, every=3))]


def steps_of_two_fits(folder: str) -> list[bool]:
    """In a worker: whether a model has the same step function after each `fit`, also after one that failed."""
    import keras

    import abreast

    class Fails(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise InterruptedError

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, 2)
    x = np.ones((8, 2), "float32")
    model.fit(x, x[:, :1], verbose=0)
    step, found = model.train_function, []
    for callbacks in ([], [Fails()], []):
        try:
            model.fit(x, x[:, :1], verbose=0, callbacks=[*callbacks, abreast.Checkpoint(folder)])
        except InterruptedError:
            assert callbacks
        found.append(model.train_function is step)
    return found


def test_a_step_that_a_callback_makes_anew_is_counted(workers: Workers, tmp_path: Path) -> None:
    assert workers.abreast.run(make_the_step_anew, folder=str(tmp_path)) == ["fit0001-000001-000000001", 3 * 3 - 4 + 1]


def make_the_step_anew(folder: str) -> list[Any]:
    """In a worker: the newest checkpoint of a `fit` that ends before step 4, and the steps of the run after it, one repeated."""
    import keras

    import abreast
    from abreast.checkpoints.folder import checkpoint_names
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Renews(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.make_train_function(force=True)

    newest = ""

    def once(number: int, interrupt: Interrupt) -> int:
        nonlocal newest
        newest = max(checkpoint_names(folder), default="")
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 2)
        x = np.ones((6, 2), "float32")
        model.fit(x, x[:, :1], 2, 3, verbose=0, callbacks=[Renews(), interrupt, abreast.Checkpoint(folder, every=1)])
        return interrupt.steps

    steps = until_it_ends(once, (4,))
    return [newest, steps]


def test_a_fit_beside_another_one_writes_no_checkpoints(workers: Workers, tmp_path: Path) -> None:
    assert workers.abreast.run(fit_in_two_threads, folder=str(tmp_path)) == ["fit0001-000002-000000000-final"]


def fit_in_two_threads(folder: str) -> list[str]:
    """In a worker: the checkpoints after a `fit` in whose first epoch a thread has begun another one and ended it."""
    import threading

    import keras

    import abreast
    from abreast.checkpoints import which_fit
    from abreast.checkpoints.folder import checkpoint_names

    def fit(*callbacks: Any) -> None:
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 1)
        x = np.ones((4, 2), "float32")
        model.fit(x, x[:, :1], 2, 2, verbose=0, callbacks=[*callbacks, abreast.Checkpoint(folder)])

    def fit_beside(epoch: int, logs: Any) -> None:
        thread = threading.Thread(target=fit)
        thread.start()
        thread.join()

    which_fit.as_in_a_new_process()
    fit(keras.callbacks.LambdaCallback(on_epoch_begin=fit_beside))
    return checkpoint_names(folder)


@pytest.mark.parametrize("case", ["another rate of a moment", "another loss", "the same"])
def test_a_model_that_a_callback_compiled_anew_goes_on_if_it_can(workers: Workers, tmp_path: Path, case: str) -> None:
    plain, found, said = workers.abreast.run(compile_in_a_callback, folder=str(tmp_path), case=case)
    if case == "the same":
        assert found == plain
    else:
        assert re.search("callbacks had changed the model before the checkpoint.* was .*, and is ", found), found
    assert re.search("Adam, .* of the model was replaced in the middle of a fit", said), said


def compile_in_a_callback(folder: str, case: str) -> tuple[Any, Any, str]:
    """In a worker: the losses of a model that its second epoch compiles anew; those, or the error, if the third is interrupted;
    and what was said.
    """
    import keras

    import abreast
    from abreast.checkpoints import moment
    from abreast.errors import CheckpointError
    from abreast.replacing import replaced
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    said: list[str] = []
    rate, loss = {"another rate of a moment": (0.5, "mse"), "another loss": (0.9, "mae"), "the same": (0.9, "mse")}[
        case
    ]

    class Compiles(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.compile(keras.optimizers.Adam(0.1, beta_1=rate), loss)
                self.model.optimizer.build(self.model.trainable_variables)
                self.model.make_train_function(force=True)

    def run(interrupted_at: tuple[int, ...] = (), *kept: Any) -> Any:
        def once(number: int, interrupt: Interrupt) -> Any:
            keras.utils.set_random_seed(5)
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile(keras.optimizers.Adam(0.1, beta_1=0.9), "mse")
            abreast.parallelize(model, 1)
            x = np.arange(8, dtype="float32").reshape(4, 2)
            return model.fit(x, x[:, :1], 2, 3, verbose=0, callbacks=[Compiles(), interrupt, *kept]).history["loss"]

        try:
            return until_it_ends(once, interrupted_at)
        except CheckpointError as error:
            return error.message

    with replaced(moment, "tell_once", said.append):
        return run(), run((5,), abreast.Checkpoint(folder, every=1)), "".join(said)


def test_what_the_code_of_steps_has_changed_goes_on(workers: Workers, tmp_path: Path) -> None:
    plain = workers.abreast.run(count_in_steps)
    assert workers.abreast.run(count_in_steps, folder=str(tmp_path), interrupted_at=(4, 4)) == plain


def count_in_steps(folder: str | None = None, interrupted_at: tuple[int, ...] = ()) -> list[Any]:
    """In a worker: what a loss, a layer and a metric of a model in Python steps have counted, and the losses, which depend on it;
    and what a function of a callback has turned over, which at the first interruption is as it was in the beginning.
    """
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Counter:
        def __init__(self) -> None:
            self.number = 0

    class Counts(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def __init__(self, counter: Counter) -> None:
            super().__init__()
            self.counter, self._calls = counter, 0

        def call(self, x: Any) -> Any:
            self.counter.number += 1
            self._calls += 1
            return x

    class Updates(keras.metrics.Metric):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__(name="updates")
            self.number = 0

        def update_state(self, *arguments: Any, **more: Any) -> None:
            self.number += 1

        def result(self) -> float:
            return float(self.number)

        def reset_state(self) -> None:
            self.number = 0

    def once(number: int, interrupt: Interrupt) -> list[Any]:
        calls: list[int] = []
        counter = Counter()
        is_odd = False

        def turn_over(batch: int, logs: Any) -> None:
            nonlocal is_odd
            is_odd = not is_odd

        def loss(y: Any, predicted: Any) -> Any:
            calls.append(1)
            return keras.ops.mean(keras.ops.square(y - predicted), -1) * len(calls)

        keras.utils.set_random_seed(5)
        counts = Counts(counter)
        model = keras.Sequential([keras.Input((2,)), counts, keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e-3), loss, run_eagerly=True, metrics=[Updates()])
        abreast.parallelize(model, 1)
        begun = counter.number
        x = np.arange(12, dtype="float32").reshape(6, 2) / 4
        callbacks = [interrupt, keras.callbacks.LambdaCallback(on_train_batch_end=turn_over)]
        callbacks += [] if folder is None else [abreast.Checkpoint(folder, every=1)]
        history = model.fit(x, x[:, :1], 2, 3, verbose=0, callbacks=callbacks).history
        return [history, len(calls), counter.number - begun, counts._calls - begun, is_odd]

    return until_it_ends(once, interrupted_at)


def test_other_models_that_callbacks_use_go_on(workers: Workers, tmp_path: Path) -> None:
    plain = workers.abreast.run(average_in_callbacks)
    assert workers.abreast.run(average_in_callbacks, folder=str(tmp_path), interrupted_at=(3, 3)) == plain


def average_in_callbacks(folder: str | None = None, interrupted_at: tuple[int, ...] = ()) -> list[Any]:
    """In a worker: the weights of an average that a callback holds, those of a model that a function trains, and a metric."""
    import keras

    import abreast
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    class Average(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.averages, self.mean = [keras.models.clone_model(model)], keras.metrics.Mean()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            pairs = zip(self.averages[0].get_weights(), self.model.get_weights(), strict=True)
            self.averages[0].set_weights([0.5 * one + 0.5 * other for one, other in pairs])
            self.mean.update_state(logs["loss"])

    def made() -> Any:
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e-3, momentum=0.9), "mse")
        return model

    def once(number: int, interrupt: Interrupt) -> list[Any]:
        keras.utils.set_random_seed(5)
        model, other = made(), made()
        abreast.parallelize(model, 1)
        x = np.arange(8, dtype="float32").reshape(4, 2)
        average = Average(model)
        trains = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: other.train_on_batch(x, x[:, :1]))
        kept = [] if folder is None else [abreast.Checkpoint(folder, every=1)]
        model.fit(x, x[:, :1], 2, 3, verbose=0, callbacks=[average, trains, interrupt, *kept])
        weights = [*average.averages[0].get_weights(), *other.get_weights()]
        return [*[each.tolist() for each in weights], float(average.mean.result())]

    return until_it_ends(once, interrupted_at)


def test_a_loop_of_the_scripts_own_is_said_not_to_be_saved(workers: Workers, tmp_path: Path) -> None:
    inside, outside = workers.abreast.run(train_in_a_loop, folder=str(tmp_path))
    assert not inside
    assert [line.partition(":")[0] for line in outside] == [
        "checkpoints do not save loops of the script's own, as with train_on_batch"
    ]


def train_in_a_loop(folder: str) -> list[list[str]]:
    """In a worker: what is said of `train_on_batch` in a callback, and of one outside of every `fit`."""
    import keras

    import abreast
    from abreast.checkpoints import which_fit
    from abreast.checkpoints.policy import Policy, as_default
    from abreast.replacing import replaced

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, 1)
    x = np.ones((4, 2), "float32")
    trains = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: model.train_on_batch(x, x[:, :1]))
    said: list[str] = []
    which_fit.as_in_a_new_process()
    with as_default(Policy(folder)), replaced(which_fit, "tell_once", said.append):
        model.fit(x, x[:, :1], verbose=0, callbacks=[trains])
        inside = list(said)
        model.train_on_batch(x, x[:, :1])
    return [inside, said]


def test_a_step_with_two_optimizers_goes_on(workers: Workers, tmp_path: Path) -> None:
    plain = workers.abreast.run(train_with_two_optimizers)
    assert_equal(plain, workers.abreast.run(train_with_two_optimizers, folder=str(tmp_path), interrupted_at=(3, 3)))


def test_an_optimizer_that_only_a_backup_builds_is_none_of_a_restart(workers: Workers, tmp_path: Path) -> None:
    folder, plain = str(tmp_path / "checkpoints"), workers.abreast.run(train_with_two_optimizers)
    found = workers.abreast.run(
        train_with_two_optimizers, folder=folder, interrupted_at=(6, 1), backup=str(tmp_path / "backup")
    )
    assert_equal(plain, found)


def train_with_two_optimizers(
    folder: str | None = None, interrupted_at: tuple[int, ...] = (), backup: str | None = None
) -> dict[str, Any]:
    """In a worker: the variables of a model whose step has a second optimizer, built by its first step."""
    import keras

    import abreast
    from abreast.checkpoints import variables
    from tests.checkpoints.exact.two_optimizers import compiled
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def once(number: int, interrupt: Interrupt) -> dict[str, Any]:
        keras.utils.set_random_seed(5)
        inputs = keras.Input((2,))
        model = compiled(keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(3)(inputs))))
        abreast.parallelize(model, 1)
        x = np.arange(16, dtype="float32").reshape(8, 2) / 16
        kept = [] if folder is None else [abreast.Checkpoint(folder, every=1)]
        backups = [] if backup is None else [keras.callbacks.BackupAndRestore(backup)]
        model.fit(x, x[:, :1], 2, 2, verbose=0, callbacks=[interrupt, *backups, *kept])
        return {str(number): value for number, value in enumerate(variables.read(model).values())}

    return until_it_ends(once, interrupted_at)


def assert_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def train(
    folder: str | None = None,
    interrupted_at: tuple[int, ...] = (),
    every: Any = 3,
    devices: tuple[int, ...] = (2,),
    dropout: float = 0.3,
    left_out: str = "",
) -> tuple[dict[str, Any], int]:
    """In a worker: a training that is interrupted after so many steps of each run, and begun again as by a new process.

    Also returns the steps of the last run.
    """
    import keras

    import abreast
    from abreast.checkpoints import generators, moment, variables
    from abreast.checkpoints.callback_state import CallbackStates
    from abreast.checkpoints.place import Keeper
    from abreast.replacing import replaced
    from tests.checkpoints.interrupt import Interrupt, until_it_ends

    def once(number: int, interrupt: Interrupt) -> tuple[dict[str, Any], int]:
        keras.utils.set_random_seed(5)
        layers = [keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(), keras.layers.Dropout(dropout)]
        model = keras.Sequential([*layers, keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.05, use_ema=True, gradient_accumulation_steps=3)
        model.compile(optimizer, "mse", metrics=["mae"])
        abreast.parallelize(model, devices[min(number, len(devices) - 1)])
        x = np.random.default_rng(0).normal(size=(100, 6)).astype("float32")
        y = x[:, :1] * 2 + x[:, 1:2]
        halving = keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=0, min_delta=100.0)
        best = keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
        callbacks = [interrupt, halving, best]
        if folder is not None:
            callbacks.append(abreast.Checkpoint(folder, every=every))
        history = model.fit(
            x, y, batch_size=16, epochs=3, validation_data=(x[:30], y[:30]), callbacks=callbacks, verbose=0
        )
        found = {f"history/{name}": np.array(values) for name, values in history.history.items()}
        found |= {f"variables/{i}": np.array(each) for i, each in enumerate(variables.read(model).values())}
        return found | {"predict": model.predict(x, verbose=0), "next draw": np.random.random()}, interrupt.steps

    broken: dict[str, tuple[Any, str, Any]] = {
        "generators": (generators, "write", lambda *_: None),
        "variables": (variables, "write", lambda *_: None),
        "callbacks": (CallbackStates, "write", lambda *_: None),
        "place": (Keeper, "go_to", lambda *_: None),
        "metrics": (moment.RunningFit, "write", _without_metrics(moment.RunningFit.write)),
    }
    with replaced(*broken[left_out]) if left_out else nullcontext():
        return until_it_ends(once, interrupted_at)


def _without_metrics(plain: Any) -> Any:
    def write(self: Any, saved: Any, **options: Any) -> None:
        plain(self, saved, **options)
        self.model.reset_metrics()

    return write
