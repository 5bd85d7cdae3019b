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


def beyond_comparison(kind: str) -> str:
    """In a worker: why a source is read between steps, if its code and a loss reach `kind`."""
    import keras
    import numpy as np

    from abreast.feed.reach import Reach
    from abreast.feed.shared_state import beyond_comparison

    class Item:
        def __init__(self) -> None:
            self.level = 0

    table = {
        "array": np.zeros(100_000),
        "words": {str(number): number for number in range(2000)},
        "fixed": tuple(range(2000)),
        "items": [Item() for _ in range(2000)],
        "many": [[number] for number in range(60_000)],
    }[kind]

    of_steps: Any = [] if kind == "many" else table

    class Loss(keras.losses.Loss):  # type: ignore[misc]
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return y_pred * len(of_steps)

    def source() -> Iterator[Any]:
        yield table

    return beyond_comparison(Reach([source()]), Reach([Loss()]))


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("array", "share table, which is too large to compare"),
        ("words", "share table, which is too large to compare"),
        ("fixed", ""),
        ("items", "share table, which is too large to compare"),
        ("many", "reaches more than 50,000 Python objects"),
    ],
)
def test_what_is_too_large_to_compare_ends_reading_ahead(workers: Workers, kind: str, why: str) -> None:
    told = workers.abreast.run(beyond_comparison, kind=kind)
    assert why in told if why else not told


def test_an_entry_of_a_long_list_is_reached(workers: Workers) -> None:
    assert workers.abreast.run(reaches_entry)


def reaches_entry() -> bool:
    """In a worker: whether a source reaches an object in a list of more than 1,000 entries."""
    from abreast.feed.reach import Reach

    entries: list[Any] = [*range(5000), Helper()]

    def source() -> Iterator[Any]:
        yield entries

    return id(entries[-1]) in Reach([source()]).met
