"""Bugs of plain Keras from which the tests protect their comparisons."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.client import Workers

TRACES = 1200


@pytest.mark.full
def test_no_added_loss_is_lost_in_a_later_trace(workers: Workers) -> None:
    if workers.backend != "jax":
        pytest.skip("JAX only")
    assert workers.plain.run(numbers_of_losses, traces=TRACES) == {2}


def numbers_of_losses(traces: int) -> set[int]:
    """How many losses each of many traces of a model finds, whose two layers add one each."""
    import jax
    import keras
    from keras import ops

    class Penalty(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs):  # type: ignore[no-untyped-def]
            self.add_loss(0.1 * ops.mean(ops.square(inputs)))
            return inputs

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activity_regularizer="l1"), Penalty()])
    weights, found = [each.value for each in model.trainable_variables], set()
    for rows in range(1, traces):

        def losses(weights, x):  # type: ignore[no-untyped-def]
            *_, losses = model.stateless_call(weights, [], x, return_losses=True)
            found.add(len(losses))
            return sum(losses)

        jax.eval_shape(losses, weights, jax.ShapeDtypeStruct((rows, 6), "float32"))
    return found


def test_a_placed_model_keeps_losses_that_plain_keras_loses(workers: Workers) -> None:
    if workers.backend != "jax":
        pytest.skip("JAX only")
    assert workers.abreast.run(loss_beside_old_ids, are_old=True) == workers.abreast.run(
        loss_beside_old_ids, are_old=False
    )


def loss_beside_old_ids(are_old: bool) -> float:
    """The loss of a model whose second layer has the `id` of its first layer's loss, from an earlier trace."""
    import keras
    import numpy as np
    from keras import ops

    import abreast

    class Penalty(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, inputs: Any) -> Any:
            self.add_loss(ops.mean(ops.square(inputs)))
            return inputs

    class EveryId(set[int]):
        """The ids of all objects, until it is cleared."""

        is_new = False

        def __contains__(self, item: object) -> bool:
            return not self.is_new or super().__contains__(item)

        def clear(self) -> None:
            self.is_new = True
            super().clear()

    model = keras.Sequential([keras.Input((3,)), Penalty(), Penalty()])
    model.compile("sgd", "mse")
    placed = abreast.parallelize(model, 2)
    x = np.ones((8, 3), "float32")
    placed.evaluate(x, 0 * x, batch_size=4, verbose=0)
    if are_old:
        vars(model.layers[1])["_loss_ids"] = EveryId()  # not by Keras, which would copy it
    return float(placed.evaluate(x, 0 * x, batch_size=8, verbose=0))  # a new trace
