"""Python state that a source and a model's steps share: only a change of it ends reading ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.client import Workers

OPTIONS: dict[str, Any] = {"size": 4, "names": ["a", "b"], "level": 0}
level = 0


class Helper:
    def __init__(self) -> None:
        self.level = 0


def read(changes: str) -> str:
    """In a worker: the name of the shared state that changes while a source is read three times."""
    import keras

    from abreast.feed.reach import Reach
    from abreast.feed.shared_state import SharedState

    helper, layer = Helper(), keras.layers.Dense(1)

    class Loss(keras.losses.Loss):  # type: ignore[misc]
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return OPTIONS["size"] * (y_pred - y_true) * helper.level * level

    def source() -> Iterator[int]:
        global level
        for number in range(3):
            if changes == "entry":
                OPTIONS["level"] = number + 1
            elif changes == "attribute":
                helper.level += 1
            elif changes == "global":
                level += 1
            yield OPTIONS["size"] + len(layer.weights)

    loss, batches = Loss(), source()
    state = SharedState(Reach([batches]), Reach([loss, layer]))
    for _ in range(3):
        state.before_read(is_first_step=False)
        next(batches)
        state.after_read()
        if changes == "step":
            helper.level += 1
    return state.changed


@pytest.mark.parametrize(
    ("changes", "name"),
    [("nothing", ""), ("entry", "OPTIONS"), ("attribute", "helper"), ("global", "level"), ("step", "helper")],
)
def test_a_change_of_state_that_both_reach_is_named(workers: Workers, changes: str, name: str) -> None:
    assert workers.abreast.run(read, changes=changes) == name
