"""Objects that answer to any name, such as mocks: looking through a model's objects asks them for none."""

from __future__ import annotations

from typing import Any

from tests.harness.client import Workers

ROUNDS = 3


def asked() -> dict[str, list[str]]:
    """In a worker: the names that walks over a model's objects ask such objects for, and the calls that mocks record."""
    from unittest import mock

    import keras

    from abreast.exact import users_code
    from abreast.exact.python_values import PythonValues
    from abreast.exact.snapshot import Snapshot
    from abreast.exact.unseen_reads import calls_of_other_packages

    names: list[str] = []

    class Proxy:
        """Each attribute is another proxy, as of a chained configuration or a remote object."""

        __hash__ = None  # type: ignore[assignment]  # as of a configuration that is a dict

        def __getattr__(self, name: str) -> Any:
            names.append(name)
            return Proxy()

        def __call__(self) -> Any:
            return self

    class Holder(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.log = mock.MagicMock()
            self.reading = mock.create_autospec(lambda value: value)
            self.proxy = Proxy()
            self.proxies = [self.proxy]
            self.steps = self.add_weight(shape=(), trainable=False)

        def call(self, x: Any) -> Any:
            self.log.info(self.proxies)
            self.proxy()
            return self.reading(x)

    layer = Holder()
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1), keras.layers.Flatten()])
    model.holders = [layer]
    model.optimizer = keras.optimizers.SGD()
    with mock.patch.object(model.optimizer, "assign_sub", autospec=True) as assign:
        for _ in range(ROUNDS):
            Snapshot(model).put_back()
            PythonValues(model).held()
            users_code.may_change(model, layer, layer._non_trainable_variables)
            list(calls_of_other_packages(model, "train"))
    mocks = (layer.log, layer.reading.mock, assign.mock)
    children = [name for each in mocks for name in each._mock_children]
    return {"names": names, "children": children, "calls": [str(each.mock_calls) for each in mocks if each.mock_calls]}


def test_objects_that_answer_to_any_name_are_asked_for_none(workers: Workers) -> None:
    assert workers.abreast.run(asked) == {"names": [], "children": [], "calls": []}
