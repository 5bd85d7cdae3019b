"""Layers, losses and states that relate the rows of a batch: found at the first batch, and then those of one device."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contract.compare import relative_difference
from tests.harness.client import Workers

# What the warning names, for each model; None where rows are counted otherwise at no cost, so that nothing is said.
NAMED: dict[str, str | None] = {
    "centered": "Centered",
    "centered_in_training": "CenteredInTraining",
    "attends": "Attends",
    "adds_sum": None,
    "adds_mean_and_root": "AddsMeanAndRoot",
    "adds_contrast": "AddsContrast",
    "counts": "Counts",
    "running_mean": "RunningMean",
    "running_deviation": "RunningDeviation",
    "recommends": "Recommends",
    "centers_between": "CentersBetween",
    "contracting": "Tensordot",
    "attending_over_rows": "Softmax",
    "with_lambda": "Lambda",
}


def train(name: str, devices: int = 0, policy: str = "float32", **options: Any) -> dict[str, Any]:
    """In a worker: weights, history, predictions and warnings of one model, trained on batches of 16, 16 and 2 rows."""
    import warnings

    import keras

    from tests import relating

    generator = np.random.default_rng(0)
    x = generator.normal(size=(34, 5)).astype("float32")
    y = x[:, :1] * x[:, 1:2]
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(policy)
    try:
        model = relating.MODELS[name]()
        model.compile(keras.optimizers.SGD(0.05), {"y": "mse"} if name == "centers_between" else "mse")
        if devices:
            import abreast

            abreast.parallelize(model, devices=devices, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            history = model.fit(
                x, y, batch_size=16, epochs=2, verbose=0, shuffle=False, validation_data=(x[:10], y[:10])
            )
            predictions = model.predict(x, batch_size=16, verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")
    said = [str(one.message) for one in caught if re.search("rows of a batch|keep state", str(one.message))]
    weights = [variable.numpy() for variable in model.variables if "seed" not in variable.path]
    predictions = predictions["y"] if isinstance(predictions, dict) else predictions
    return {"numbers": [*weights, *history.history.values(), predictions], "said": said}


def largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest relative one; NaN counts as infinitely far."""
    pairs = zip(one["numbers"], other["numbers"], strict=True)
    return max(relative_difference(b, a) for a, b in pairs)


IN_ALL_RUNS = ("centers_between", "adds_sum", "counts")


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in IN_ALL_RUNS else [pytest.mark.full]) for n in NAMED])
def test_what_relates_rows_is_what_it_is_on_one_device(workers: Workers, name: str) -> None:
    plain, parallel = workers.plain.run(train, name=name), workers.abreast.run(train, name=name, devices=4)
    assert largest_difference(plain, parallel) < 1e-5  # measured 2e-6; 1e-2 and more without looking at rows
    named = None if workers.backend == "jax" else NAMED[name]
    assert len(parallel["said"]) == (0 if named is None else 1), parallel["said"]
    assert named is None or named in parallel["said"][0]


def test_without_looking_at_rows_they_differ_and_state_is_announced(workers: Workers) -> None:
    if workers.backend == "jax":
        pytest.skip("its layers see all rows")
    plain, parallel = (
        workers.plain.run(train, name="counts"),
        workers.abreast.run(train, name="counts", devices=4, check_rows=False),
    )
    assert largest_difference(plain, parallel) > 1e-2
    assert "a sum or a count is not" in parallel["said"][0]


# `SpectralNormalization` sets its kernel: every device to the same, of which the mean is taken, as of what any step sets.
SETS_WEIGHTS = {"SpectralNormalization": {0}}


def alarms(names: list[str], policies: list[str]) -> list[str]:
    """In a worker: what is found of layers that work row by row, on rows as they are, large ones, and some with NaN."""
    import keras

    from abreast.exact import install
    from abreast.exact.relation_search import parts_of, relations
    from tests import row_wise

    install()
    parts = parts_of(4)
    found = []
    for policy in policies:
        keras.config.set_dtype_policy(policy)
        try:
            for name in names:
                model, rows = row_wise.model_of(name)
                gaps = np.where(np.arange(rows.size).reshape(rows.shape) % 97 == 0, np.nan, rows).astype("float32")
                for which, data in {"as they are": rows, "large": 1e3 * rows, "with NaN": gaps}.items():
                    for training, kind in ((True, "train"), (False, "test")):
                        forward = functools.partial(_forward, model, training)
                        if not _works(forward, data):
                            continue
                        few = keras.ops.convert_to_tensor(data[: parts[0].total])
                        result = relations(model, forward, _always(few), parts, _probe(model), kind, most_rows=0)
                        sets = SETS_WEIGHTS.get(name, set()) if training else set()
                        rest = replace(result, assigned=result.assigned ^ sets)
                        if rest or rest.reasons or rest.refused:
                            found.append(f"{policy} {name}, {which}, training={training}: {result}")
        finally:
            keras.config.set_dtype_policy("float32")
    return found


def _always(rows: Any) -> Callable[[int], Any]:
    return lambda _: rows


def _works(forward: Any, data: Any) -> bool:
    """Whether plain Keras can: PyTorch and TensorFlow have no pooling of volumes in half precision on the CPU."""
    import keras

    try:
        forward(keras.ops.convert_to_tensor(data))
    except Exception as error:
        if type(error).__name__ not in ("NotImplementedError", "NotFoundError"):
            raise
        return False
    return True


def _forward(model: Any, training: bool, data: Any) -> Any:
    return model(data, training=training)


def _probe(model: Any) -> Any:
    import keras

    if keras.backend.backend() == "torch":
        from abreast.backend.torch.probe import TorchProbe

        return TorchProbe(model, on_gpu=False, with_gradients=False)
    from abreast.backend.tensorflow.probe import TensorFlowProbe

    return TensorFlowProbe(model, "/CPU:0")


# Of `row_wise.LAYERS`, one or more of every kind; the users' layers there are in all runs too.
LAYERS_IN_ALL_RUNS = {
    *("Dense", "Reshape", "Softmax", "Discretization", "Normalization"),
    *("BatchNormalization", "BatchNormalizationOfImages", "LayerNormalization", "SpectralNormalization"),
    *("Dropout", "GaussianNoise", "SpatialDropout1D", "Masking"),
    *("LSTM", "Bidirectional", "TimeDistributed", "ConvLSTM2D"),
    *("Conv1D", "Conv2D", "DepthwiseConv2D", "Conv3D"),
    *("GlobalMaxPooling1D", "MaxPooling2D", "Cropping2D", "Resizing"),
    *("RandomFlip", "RandomRotation", "RandomBrightness", "RandomGrayscale"),
    *("MultiHeadAttention", "Embedding", "EmbeddingAndAttention"),
    *("Add", "Dot"),
}


@pytest.mark.in_turn
def test_layers_that_work_row_by_row_raise_no_alarm(workers: Workers, pytestconfig: pytest.Config) -> None:
    if workers.backend == "jax":
        pytest.skip("its layers see all rows")
    full = "not full" not in pytestconfig.option.markexpr
    names = workers.abreast.run(names_of_layers)
    assert set(names) >= LAYERS_IN_ALL_RUNS
    names = names if full else [name for name in names if name in LAYERS_IN_ALL_RUNS or name.startswith("own")]
    policies = ["float32", "mixed_float16", "mixed_bfloat16"] if full else ["float32"]
    assert workers.abreast.run(alarms, names=names, policies=policies, timeout_seconds=600) == []


def names_of_layers() -> list[str]:
    """In a worker."""
    from tests import row_wise

    return list(row_wise.LAYERS)


def what_is_left() -> dict[str, Any]:
    """In a worker: what differs after looking at a model that draws, counts and keeps things."""
    import random

    import keras

    import abreast
    from tests import row_wise

    model, rows = row_wise.model_of("own: Steps")
    layer = model.layers[-1]
    drawing = keras.Sequential([model, row_wise.DrawsItself(), row_wise.Sampling(), keras.layers.BatchNormalization()])
    drawing.compile("adam", "mse")
    abreast.parallelize(drawing, devices=4)

    def state() -> dict[str, Any]:
        torch: Any = sys.modules.get("torch")
        return {
            "python": random.getstate(),
            "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index]
            "torch": None if torch is None else torch.get_rng_state().tolist(),
            "layer": [layer.calls, list(layer.seen), dict(layer.notes)],
            "variables": [variable.numpy().tolist() for variable in drawing.variables],
            "attributes": sorted(vars(layer)),
        }

    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    row_check: Any = importlib.import_module("abreast.exact.row_check")
    plain = row_check.relations

    def looked(*args: Any, **options: Any) -> Any:
        before.update(state())
        result = plain(*args, **options)
        after.update(state())
        return result

    row_check.relations = looked
    try:
        drawing.fit(rows, np.zeros_like(rows), batch_size=8, verbose=0)
    finally:
        row_check.relations = plain
    assert before
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def test_looking_at_rows_leaves_nothing_behind(workers: Workers) -> None:
    if workers.backend == "jax":
        pytest.skip("its layers see all rows")
    assert workers.abreast.run(what_is_left) == {}


def own_steps(name: str) -> list[str]:
    """In a worker: the warnings about one step of the user's own."""
    import warnings

    import keras

    import abreast
    from tests import own_steps as steps

    model = steps.MODELS[name]()
    model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=False)
    abreast.parallelize(model, devices=4)
    rows = np.random.default_rng(0).normal(size=(32, 5)).astype("float32")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, rows[:, :1], batch_size=16, verbose=0)
    return [str(one.message) for one in caught if "own train_step" in str(one.message)]


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("name", ["mean", "drawing", "sum", "clipping", "contrast"])
def test_gradients_of_an_own_step_that_are_no_means_are_named(workers: Workers, name: str) -> None:
    if workers.backend == "jax":
        pytest.skip("its steps see all rows")
    said = workers.abreast.run(own_steps, name=name)
    assert len(said) == (0 if name in ("mean", "drawing") else 1), said
    assert not said or ("is a sum over rows" in said[0]) == (name == "sum")


def steps_of_looks(name: str, num_steps: tuple[int, ...]) -> list[int]:
    """In a worker: the numbers of the steps, over several fits, before which the rows are checked."""
    import keras

    import abreast
    from abreast.exact import row_check
    from abreast.replacing import replaced
    from tests import own_steps as steps
    from tests import relating

    model = (steps.MODELS if name == "mean" else relating.MODELS)[name]()
    model.compile(keras.optimizers.SGD(0.05), "mse")
    abreast.parallelize(model, devices=2)
    plain: Any = vars(row_check)["relations"]
    found: list[int] = []

    def relations(*arguments: Any) -> Any:
        found.append(done[0])
        return plain(*arguments)

    done = [0]
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: done.__setitem__(0, done[0] + 1))
    rows = np.random.default_rng(0).normal(size=(8 * max(num_steps), 5)).astype("float32")
    with replaced(row_check, "relations", relations):
        for steps_of_fit in num_steps:
            x = rows[: 8 * steps_of_fit]
            model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[count])
    return found


@pytest.mark.in_turn(1)
@pytest.mark.parametrize(("name", "expected"), [("mean", [0, 4, 16, 64]), ("adds_mean_and_root", [0, 4, 16, 64])])
def test_a_step_is_checked_again_ever_more_rarely(workers: Workers, name: str, expected: list[int]) -> None:
    if workers.backend == "jax":
        pytest.skip("its steps see all rows")
    assert workers.abreast.run(steps_of_looks, name=name, num_steps=(10, 60)) == expected


def train_own_step(name: str, devices: int = 0) -> dict[str, Any]:
    """In a worker: weights after an own step has seen 34 rows, 18 and then 16 of them."""
    import keras

    from tests import own_steps as steps

    keras.utils.set_random_seed(1)
    model = steps.MODELS[name]()
    model.compile(keras.optimizers.SGD(0.05), "mse")
    if devices:
        import abreast

        abreast.parallelize(model, devices=devices)
    rows = np.random.default_rng(0).normal(size=(34, 5)).astype("float32")
    model.fit(rows, rows[:, :1], batch_size=18, epochs=2, verbose=0, shuffle=False)
    return {"numbers": [variable.numpy() for variable in model.weights], "said": []}


def test_a_layer_that_relates_rows_is_exact_in_an_own_step(workers: Workers) -> None:
    if workers.backend == "jax":
        pytest.skip("its steps see all rows")
    plain, parallel = (
        workers.plain.run(train_own_step, name="centered"),
        workers.abreast.run(train_own_step, name="centered", devices=4),
    )
    assert largest_difference(plain, parallel) < 1e-5


def refused_at(name: str) -> str:
    """In a worker: what `fit` raises before its first step."""
    import abreast
    from abreast.errors import ModelError
    from tests import relating

    model = relating.REFUSED[name]()
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices=4)
    x = np.random.default_rng(0).normal(size=(32, 5)).astype("float32")
    model(x[:1])
    before = [variable.numpy() for variable in model.weights]
    try:
        model.fit(x, x[:, :1], batch_size=16, verbose=0)
    except ModelError as error:
        assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.weights, strict=True))
        return str(error)
    return ""


def test_what_cannot_work_on_the_rows_of_all_is_refused_by_name(workers: Workers) -> None:
    if workers.backend == "jax":
        pytest.skip("its layers see all rows")
    said = workers.abreast.run(refused_at, name="pairs")
    assert re.search(
        r"Pairs .*related to one another.*\nhint: compute .* compute_loss.* or train it on one device", said
    ), said


def relates_by_gradients() -> list[bool]:
    """For gradients of a weight that are their parts' sum, and beside much larger ones are about rounding; and for others."""
    import numpy as np

    from abreast.exact.gradient_search import _are_no_sums

    large, small = np.array([3.0, -1.0]), np.array([5e-5, 2e-5])
    of_rows = [[large, small], [large / 4, small / 4], [3 * large / 4, 3 * small / 4]]
    related = [[large, small], [large, small / 4], [large, 3 * small / 4]]
    return [_are_no_sums(of_rows), _are_no_sums(related)]


def test_small_gradients_beside_large_ones_relate_no_rows(workers: Workers) -> None:
    assert workers.abreast.run(relates_by_gradients) == [False, True]
