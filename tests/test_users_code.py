"""A layer's state that no code assigns is a constant, of which nothing is said."""

from __future__ import annotations

import pytest

from tests.harness.client import Workers

CONSTANT = ("Shifted", "ChangedByACallback")
MAY_CHANGE = (
    "RunningMean",
    "MovedByAFunction",
    "MovedInAList",
    "MovedByName",
    "MovedAsAVariable",
    "InAListOnly",
    "CallsACallback",
)


def may_change(name: str) -> bool:
    """In a worker."""
    import keras

    from abreast.exact import users_code
    from tests import layers_with_state

    layer = getattr(layers_with_state, name)()
    model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(1)])
    return users_code.may_change(model, layer, layer._non_trainable_variables)


@pytest.mark.parametrize("name", CONSTANT)
def test_a_state_that_no_code_assigns_is_a_constant(workers: Workers, name: str) -> None:
    assert not workers.abreast.run(may_change, name=name)


@pytest.mark.parametrize("name", MAY_CHANGE)
def test_a_state_that_some_code_may_assign_is_not(workers: Workers, name: str) -> None:
    assert workers.abreast.run(may_change, name=name)
