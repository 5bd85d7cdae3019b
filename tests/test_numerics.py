"""NaN in one rank's rows: it is reported once, with step and rank, and every rank takes the same branch.

Batches have 32 rows on four devices, eight per rank. Row 32 * 2 + 8 * 1 is poisoned: rank 1 of step 2.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.harness.client import Workers

POISONED_STEP, POISONED_RANK = 2, 1


@pytest.mark.in_turn
def test_terminate_on_nan_stops_at_the_step_and_names_the_rank(workers: Workers) -> None:
    end = workers.abreast.run(fit_poisoned, terminate=True)
    assert end["steps"] == POISONED_STEP + 1
    assert end["said"].count("abreast: the loss is nan") == 1
    assert "after step 2 of epoch 0 (input of rank 1 of 4 is not finite)" in end["said"]


@pytest.mark.in_turn(2)
def test_check_numerics_raises_at_the_step(workers: Workers) -> None:
    end = workers.abreast.run(fit_poisoned, check_numerics=True)
    assert end["error"] == "NumericsError"
    assert end["steps"] == POISONED_STEP  # callbacks after ours do not see the step
    assert "after step 2 of epoch 0 (input of rank 1 of 4 is not finite)" in end["message"]
    assert "hint:" in end["message"]


def test_numerics_are_not_checked_by_default(workers: Workers) -> None:
    """The negative control: the same rows without a watch train on, on NaN."""
    end = workers.abreast.run(fit_poisoned)
    assert (end["error"], end["said"], end["steps"]) == ("", "", 5)
    assert not end["finite"]


def test_finite_rows_raise_no_alarm(workers: Workers) -> None:
    end = workers.abreast.run(fit_poisoned, poison=False, terminate=True, check_numerics=True)
    assert (end["error"], end["said"], end["steps"], end["finite"]) == ("", "", 5, True)


@pytest.mark.in_turn(1)
def test_with_loss_scaling_all_ranks_skip_the_poisoned_step_together(workers: Workers) -> None:
    end = workers.abreast.run(fit_with_loss_scaling)
    assert end["changed"] == [True, True, False, True, True]
    assert end["scales"] == [1024.0, 1024.0, 512.0, 512.0, 512.0]
    assert end["finite"]
    assert end["spread"] == 0.0


def test_replicas_that_differ_are_seen_to_differ(workers: Workers) -> None:
    """The negative control of the spread over replicas."""
    assert workers.abreast.run(spread_over_replicas_that_differ) > 1e-3


# Bodies.


def poisoned_task(optimizer: Any, poison: bool = True, **placement: Any) -> tuple[Any, Any, Any]:
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(3)])
    model.compile(optimizer, "mse")
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(160, 4)).astype("float32"), draws.normal(size=(160, 3)).astype("float32")
    if poison:
        x[32 * POISONED_STEP + 8 * POISONED_RANK] = np.nan
    return abreast.parallelize(model, devices=4, **placement), x, y


def fit_poisoned(poison: bool = True, terminate: bool = False, check_numerics: bool = False) -> dict[str, Any]:
    import contextlib
    import io

    import keras
    import numpy as np

    import abreast

    model, x, y = poisoned_task("sgd", poison, check_numerics=check_numerics)
    ended: list[int] = []
    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: ended.append(batch))]
    callbacks += [keras.callbacks.TerminateOnNaN()] if terminate else []
    error: Exception | None = None
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            model.fit(x, y, batch_size=32, shuffle=False, verbose=0, callbacks=callbacks)
        except abreast.AbreastError as caught:
            error = caught
    return {
        "error": type(error).__name__ if error else "",
        "message": str(error),
        "said": said.getvalue(),
        "steps": len(ended),
        "finite": all(bool(np.isfinite(weight).all()) for weight in model.get_weights()),
    }


def fit_with_loss_scaling() -> dict[str, Any]:
    import keras
    import numpy as np

    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), initial_scale=1024.0)
    model, x, y = poisoned_task(optimizer)
    seen = [model.get_weights()]
    scales: list[float] = []

    for start in range(0, 160, 32):  # a fit per step: on JAX, Keras keeps the variables to itself during an epoch
        model.fit(x[start : start + 32], y[start : start + 32], batch_size=32, shuffle=False, verbose=0)
        seen.append(model.get_weights())
        scales.append(float(optimizer.dynamic_scale))
    return {
        "changed": [any(bool((a != b).any()) for a, b in zip(*pair, strict=True)) for pair in pairwise(seen)],
        "scales": scales,
        "finite": all(bool(np.isfinite(weight).all()) for weight in seen[-1]),
        "spread": spread(model, x),
    }


def spread(model: Any, x: Any) -> float:
    """How far apart the replicas are: each predicts the same row with its own weights."""
    import numpy as np

    same = np.repeat(x[:1], 4, axis=0)
    predicted = model.predict(same, batch_size=4, verbose=0)
    return float(np.abs(predicted - predicted[0]).max())


def spread_over_replicas_that_differ() -> float:
    import keras

    model, x, y = poisoned_task("sgd", poison=False)
    model.fit(x, y, batch_size=32, verbose=0)
    model.predict(x[:4], verbose=0)
    assert spread(model, x) == 0.0
    variable = model.trainable_variables[0]
    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        from abreast.backend.torch.team_model import team_model_of

        team_model: Any = team_model_of(model)
        with torch.no_grad():
            variable.value.add_(1.0)
        team_model.remember()  # as if nobody had assigned
        team_model.accept()
    elif backend == "tensorflow":
        from abreast.backend.tensorflow.backend import BACKEND

        variables = BACKEND._variables[model]
        variables.work(adds_up=False)  # as in the middle of a fit: `predict` gives the copies nothing
        copy = variables.copies(variable)[2]
        copy.assign_add(copy * 0 + 1.0)
    else:
        import jax
        import numpy as np

        value = variable.value
        shards = [jax.device_put(np.asarray(s.data) + i, s.device) for i, s in enumerate(value.addressable_shards)]
        variable._value = jax.make_array_from_single_device_arrays(value.shape, value.sharding, shards)
    return spread(model, x)
