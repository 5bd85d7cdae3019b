"""Bugs of plain Keras from which the tests protect their comparisons."""

from __future__ import annotations

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
