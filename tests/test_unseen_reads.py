"""The search for calls of other packages in the code of a step finds what could read tensors, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.stats import norm  # type: ignore[import-untyped]  # Python writes calls of what a file imports in another way

from tests.harness.client import Workers


def test_calls_of_other_packages_are_found_where_a_step_makes_them(workers: Workers) -> None:
    assert workers.abreast.run(found) == {
        "a method that call names": "np.any",
        "a nested comprehension": "np.max",
        "imported in the call": "numbers.std",
        "a function of a Lambda": "np.mean",
        "constants and types": "",
        "a loss in Keras's step": "",
        "a loss in a step of one's own": "np.sqrt",
        "an object outside of the model": "scaler.transform",
        "an object that the file imports": "norm.cdf",
        "an object of a layer": "held.transform",
        "an object that is called": "held",
        "a function of a layer": "held",
        "one name in two layers": "held.transform",
        "numbers and generators": "",
        "a call without values": "",
        "a call with constants": "",
        "a call that only shows": "",
        "a layer of another package": "",
    }


def found() -> dict[str, str]:
    import keras
    import numpy as np
    from rich.console import Console
    from scipy.sparse import eye  # type: ignore[import-untyped]
    from sklearn.preprocessing import StandardScaler

    from abreast.exact.unseen_reads import calls_of_other_packages

    class Helped(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, x: Any) -> Any:
            return self.helped(x)

        def helped(self, x: Any) -> Any:
            return np.any(x)

    class Nested(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            def of_each() -> Any:
                return [np.max(x) for _ in range(3)]

            return of_each()

    class Imported(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            import numpy as numbers

            return numbers.std(x)

    class Constant(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return keras.ops.cast(x, np.float32) * np.pi * np.prod(x.shape)

    def holding(held: Any, call: Callable[[Any, Any], Any]) -> Any:
        class Holding(keras.layers.Layer):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.held = held

        Holding.call = call
        return Holding()

    class Loss(keras.losses.Loss):  # type: ignore[misc]
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return np.sqrt(y_true) - y_pred

    class OwnStep(keras.Sequential):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return self.compute_loss()

    class Foreign(keras.layers.Layer):  # type: ignore[misc]
        __module__ = "scipy.stats"

    scaler = StandardScaler()

    def name(model: Any) -> str:
        model.compile("sgd", Loss())
        model.compute_loss(y=np.ones((2, 1)), y_pred=keras.ops.ones((2, 1)))  # else there are no losses yet
        return next(calls_of_other_packages(model, "train"), "")

    layers = {
        "a method that call names": Helped(),
        "a nested comprehension": Nested(),
        "imported in the call": Imported(),
        "a function of a Lambda": keras.layers.Lambda(lambda x: np.mean(x)),
        "constants and types": Constant(),
        "an object outside of the model": keras.layers.Lambda(lambda x: scaler.transform(x)),
        "an object that the file imports": keras.layers.Lambda(lambda x: norm.cdf(x)),
        "an object of a layer": holding(scaler, lambda self, x: self.held.transform(x)),
        "an object that is called": holding(np.poly1d([2.0, 1.0]), lambda self, x: self.held(x)),
        "a function of a layer": holding(np.tanh, lambda self, x: self.held(x)),
        "numbers and generators": holding(np.ones(3), lambda self, x: self.held.reshape(x.shape)),
        "a call without values": holding(eye(3), lambda self, x: x + self.held.toarray()),
        "a call with constants": holding(scaler, lambda self, x: x if self.held.get_params(True) else -x),
        "a call that only shows": holding(Console(), lambda self, x: self.held.print(x)),
        "a layer of another package": holding(Foreign(), lambda self, x: self.held(x)),
    }
    two = [holding(keras.ops.relu, lambda self, x: self.held(x)), layers["an object of a layer"]]
    return {
        **{what: name(keras.Sequential([layer])) for what, layer in layers.items()},
        "one name in two layers": name(keras.Sequential(two)),
        "a loss in Keras's step": name(keras.Sequential([])),
        "a loss in a step of one's own": name(OwnStep([])),
    }
