"""The search for calls of other packages in the code of a step finds what could read tensors, and nothing else."""

from __future__ import annotations

from typing import Any

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
        "an object of a layer": "scaler.transform",
        "an object that is called": "polynomial",
        "numbers and generators": "",
    }


def found() -> dict[str, str]:
    import keras
    import numpy as np
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()

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

    class Scaled(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scaler = StandardScaler()

        def call(self, x: Any) -> Any:
            return self.scaler.transform(x)

    class Polynomial(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.polynomial = np.poly1d([2.0, 1.0])

        def call(self, x: Any) -> Any:
            return self.polynomial(x)

    class Noisy(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.draws = np.ones(3), np.random.default_rng(1)

        def call(self, x: Any) -> Any:
            return x + self.draws.normal() + self.mean.reshape(1, 3)

    class Loss(keras.losses.Loss):  # type: ignore[misc]
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return np.sqrt(2.0) * (y_true - y_pred)

    class OwnStep(keras.Sequential):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return self.compute_loss()

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
        "an object of a layer": Scaled(),
        "an object that is called": Polynomial(),
        "numbers and generators": Noisy(),
    }
    return {
        **{what: name(keras.Sequential([layer])) for what, layer in layers.items()},
        "a loss in Keras's step": name(keras.Sequential([])),
        "a loss in a step of one's own": name(OwnStep([])),
    }
