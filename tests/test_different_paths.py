"""Steps that decide by values of their rows: replicas that take different paths end with an error that says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.client import Workers


def skip_small_losses() -> str:
    """In a worker of PyTorch: a step of one's own that updates the weights only where the loss is large."""
    import keras
    import numpy as np

    from tests.habits.data import regression
    from tests.habits.stepping import Stepping

    class Own(Stepping):
        def train_step(self, data: Any) -> Any:
            x, y = data
            loss, gradients = self.gradients(lambda: self.squares(x, y))
            if float(loss) > 1:
                self.apply(self.optimizer, gradients)
            return {"loss": loss}

    x, y = regression(rows=64)
    y[np.arange(64) % 16 < 4] *= 100  # the first device's rows
    y[np.arange(64) % 16 >= 4] *= 0.01
    model = Own()
    model(x[:1])
    model.compile(keras.optimizers.SGD(0.0))
    return _error_of(model, x, y)


def normalize_if_rows() -> str:
    """In a worker of PyTorch: a step of one's own that normalizes only several rows; on 4 devices, 6 rows are 2, 2, 1 and 1."""
    import keras

    from tests.habits.data import regression
    from tests.habits.stepping import Stepping

    class Own(Stepping):
        def __init__(self) -> None:
            super().__init__()
            self.norm = keras.layers.BatchNormalization()

        def train_step(self, data: Any) -> Any:
            x, y = data
            if x.shape[0] > 1:
                x = self.norm(x, training=True)
            return super().train_step((x, y))

    x, y = regression(rows=22)
    model = Own()
    model.norm.build(x.shape)
    model(x[:1])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    return _error_of(model, x, y)


def trim_to_longest_row() -> str:
    """In a worker of PyTorch: a model that cuts its batch at the longest row, and a loss of one's own."""
    import keras
    import numpy as np
    from keras import ops

    class Trimming(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.out = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            longest = int(ops.max(ops.sum(ops.cast(x > 0, "int32"), axis=1))) if x.device.type != "meta" else x.shape[1]
            return self.out(x[:, :longest, None])[..., 0]

    def loss(y: Any, y_pred: Any) -> Any:
        return ops.mean(ops.square(y_pred - y[:, : y_pred.shape[1]]))

    x = (
        np.random.default_rng(0).uniform(1, 2, (32, 9)).astype("float32")
    )  # the first batch shows the check no difference
    x[16:28, 4:] = 0
    model = Trimming()
    model.compile(keras.optimizers.SGD(0.1), loss)
    return _error_of(model, x, x)


def late_answer() -> str:
    """In a worker of PyTorch: `trim_to_longest_row`, if rank 0 gets the others' answers after a rank has ended by the error."""
    import threading

    import torch.distributed as dist

    from abreast.backend.torch.team import Team
    from abreast.replacing import replaced

    ended, plain_wake, plain_gather = threading.Event(), Team._wake, dist.all_gather

    def wake(team: Any) -> None:
        ended.set()
        plain_wake(team)

    def gather(every: Any, own: Any, group: Any = None) -> None:
        plain_gather(every, own, group=group)
        if ended.wait(2.0):
            raise RuntimeError("Connection closed by peer")

    with replaced(Team, "_wake", wake), replaced(dist, "all_gather", gather):
        return trim_to_longest_row()


def _error_of(model: Any, x: Any, y: Any) -> str:
    import abreast
    from abreast.errors import ModelError

    abreast.parallelize(model, devices=4)
    try:
        model.fit(x, y, batch_size=16, epochs=1, shuffle=False, verbose=0)
    except ModelError as error:
        return str(error)
    return ""


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("script", [skip_small_losses, normalize_if_rows, trim_to_longest_row, late_answer])
def test_replicas_that_take_different_paths_are_named(workers: Workers, script: Any) -> None:
    if workers.backend != "torch":
        pytest.skip("on JAX one program sees all rows; TensorFlow's replicas meet in one process")
    assert "took different paths" in workers.abreast.run(script, timeout_seconds=120)
