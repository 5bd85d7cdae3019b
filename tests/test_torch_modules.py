"""`keras.layers.TorchModuleWrapper`: batch normalization of torch's own, and whatever else modules keep in buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.harness.client import Worker, Workers
from tests.harness.installed import skip_unless_installed

pytestmark = pytest.mark.torch

TOLERANCE = 2e-5  # measured 2e-6; 1e-1 with the moments of each replica's own rows


@pytest.fixture(scope="module")
def torch_workers() -> Iterator[Workers]:
    skip_unless_installed("torch")
    workers = Workers("torch", Worker("torch", 0), Worker("torch", 4))
    yield workers
    left = workers.close()
    assert not left, f"left behind: {left}"


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "module",
    [
        *("resnet", "batch norm 1d", "batch norm 3d", "synchronized", "not affine", "cumulative", "untracked"),
        *("frozen", "functional", "own running mean", "spectral norm", "half"),
    ],
)
def test_torch_modules_train_as_on_one_device(torch_workers: Workers, module: str) -> None:
    assert_equal(torch_workers, module=module)


@pytest.mark.parametrize("module", [pytest.param("resnet", marks=pytest.mark.in_turn(2)), "batch norm 1d"])
def test_one_row_for_each_replica_trains_as_on_one_device(torch_workers: Workers, module: str) -> None:
    assert_equal(torch_workers, module=module, batch_size=4, rows=14)


@pytest.mark.full
def test_a_compiled_torch_module_trains_as_on_one_device(torch_workers: Workers) -> None:
    assert_equal(torch_workers, module="batch norm 1d", jit_compile=True)


def test_an_own_step_trains_torch_modules_as_on_one_device(torch_workers: Workers) -> None:
    assert_equal(torch_workers, module="resnet", own_step=True)


def test_a_callback_that_sets_a_buffer_sets_it_on_every_rank(torch_workers: Workers) -> None:
    assert_equal(torch_workers, module="scaled", callback=True)


def test_a_running_mean_of_rows_is_announced_and_a_constant_is_not_touched(torch_workers: Workers) -> None:
    found = torch_workers.abreast.run(train, devices=4, module="own running mean")
    assert ["mean (RunningMean)" in text for text in found["warnings"]] == [True]
    assert np.array_equal(found["state"]["module.table"], np.arange(6, dtype="float32") / 7)
    assert torch_workers.abreast.run(train, devices=4, module="spectral norm")["warnings"] == []


@pytest.mark.in_turn
def test_local_batch_normalization_keeps_the_mean_of_the_replicas_statistics(torch_workers: Workers) -> None:
    state = torch_workers.abreast.run(one_local_step, rows_per_replica=4)
    shards = np.split(data(16, (6,))[0], 4)
    mean = np.mean([shard.mean(0) for shard in shards], 0)
    variance = np.mean([shard.var(0, ddof=1) for shard in shards], 0)
    assert np.allclose(state["running_mean"], 0.1 * mean, rtol=1e-5)
    assert np.allclose(state["running_var"], 0.9 + 0.1 * variance, rtol=1e-5)
    assert state["num_batches_tracked"] == 1


def test_local_batch_normalization_of_one_row_stays_finite(torch_workers: Workers) -> None:
    state = torch_workers.abreast.run(one_local_step, rows_per_replica=1)
    assert np.allclose(state["running_mean"], 0.1 * data(4, (6,))[0].mean(0), rtol=1e-5)
    assert np.allclose(state["running_var"], 0.9)


def test_a_failed_step_leaves_the_buffers_of_the_last_finished_one(torch_workers: Workers) -> None:
    assert torch_workers.abreast.run(batches_tracked_after_a_failure) == 2


def assert_equal(workers: Workers, **arguments: Any) -> None:
    plain = workers.plain.run(train, devices=0, **arguments)
    placed = workers.abreast.run(train, devices=4, **arguments)
    assert plain["state"].keys() == placed["state"].keys()
    tolerance = 2e-2 if arguments["module"] == "half" else TOLERANCE
    worst = {name: difference(plain["state"][name], placed["state"][name]) for name in plain["state"]}
    assert {name: value for name, value in worst.items() if value > tolerance} == {}
    assert difference(plain["predicted"], placed["predicted"]) < 10 * tolerance
    assert difference(plain["loss"], placed["loss"]) < tolerance


def difference(one: Any, other: Any) -> float:
    """The largest, relative to the largest number."""
    one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
    assert np.isfinite(one).all() and np.isfinite(other).all()
    return float(np.abs(one - other).max() / max(np.abs(one).max(), 1e-3)) if one.size else 0.0


# In a worker.


def train(
    devices: int,
    module: str,
    rows: int = 40,
    batch_size: int = 16,
    jit_compile: bool = False,
    own_step: bool = False,
    callback: bool = False,
) -> dict[str, Any]:
    import warnings

    import keras
    import torch

    torch.manual_seed(0)
    keras.utils.set_random_seed(0)
    net, shape = MODULES[module]()
    wrapped = keras.layers.TorchModuleWrapper(net)
    model = (own_step_model() if own_step else keras.Sequential)([wrapped])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=jit_compile)
    if devices:
        import abreast

        abreast.parallelize(model, devices=devices)
    x, y = data(rows, shape)

    def double(epoch: int, logs: Any) -> None:
        net.factor.mul_(2)

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=double)] if callback else []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        history = model.fit(
            x, y, batch_size=batch_size, epochs=2, shuffle=False, verbose=0, callbacks=callbacks, validation_data=(x, y)
        )
    return {
        "state": {name: value.detach().float().cpu().numpy() for name, value in wrapped.state_dict().items()},
        "predicted": model.predict(x, batch_size=batch_size, verbose=0),
        "loss": [*history.history["loss"], *history.history["val_loss"]],
        "warnings": [str(each.message) for each in caught if "torch modules" in str(each.message)],
    }


def one_local_step(rows_per_replica: int) -> dict[str, Any]:
    import keras
    import torch

    import abreast

    net = torch.nn.BatchNorm1d(6)
    model = keras.Sequential([keras.layers.TorchModuleWrapper(net)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices=4, batch_norm="local")
    x, _ = data(4 * rows_per_replica, (6,))
    model.fit(x, x, batch_size=len(x), shuffle=False, verbose=0)
    return {name: buffer.numpy() for name, buffer in net.named_buffers()}


def batches_tracked_after_a_failure() -> int:
    import keras
    import torch

    import abreast

    class Fails(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(6)

        def forward(self, inputs: Any) -> Any:
            outputs = self.norm(inputs)
            if inputs.min() < -999:
                raise RuntimeError("planted")
            return outputs

    net = Fails()
    model = keras.Sequential([keras.layers.TorchModuleWrapper(net)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices=4)
    x, _ = data(24, (6,))
    x[16:] = -1000
    with pytest.raises(RuntimeError, match="planted"):
        model.fit(x, x, batch_size=8, shuffle=False, verbose=0)
    tracked: Any = net.norm.num_batches_tracked
    return int(tracked)


def data(rows: int, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Rows whose mean and spread grow, so that the parts of a batch differ."""
    generator = np.random.default_rng(7)
    grows = np.linspace(0.5, 3, rows).reshape(-1, *[1] * len(shape))
    x = (generator.normal(size=(rows, *shape)) * grows + grows).astype("float32")
    return x, generator.normal(size=(rows, 6)).astype("float32")


def own_step_model() -> Any:
    import keras
    import torch

    class OwnStep(keras.Sequential):  # type: ignore[misc]
        def train_step(self, batch: Any) -> Any:
            x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
            self.zero_grad()
            loss = self.compute_loss(x, y, self(x, training=True))
            loss.backward()
            weights = self.trainable_weights
            with torch.no_grad():
                self.optimizer.apply([weight.value.grad for weight in weights], weights)
            return {"loss": loss}

    return OwnStep


def resnet() -> tuple[Any, tuple[int, ...]]:
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
            self.second = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

        def forward(self, inputs: Any) -> Any:
            return nn.functional.relu(inputs + self.second(nn.functional.relu(self.first(inputs))))

    stem = [nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 6)]
    return nn.Sequential(*stem, Block(8), Block(8), *head), (3, 8, 8)


def normalized(norm: Any, shape: tuple[int, ...] = (6,)) -> tuple[Any, tuple[int, ...]]:
    from torch import nn

    size = int(np.prod(shape))
    return nn.Sequential(norm, nn.Flatten(), nn.Linear(size, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 6)), shape


def cumulative() -> tuple[Any, tuple[int, ...]]:
    from torch import nn

    return normalized(nn.BatchNorm1d(6, momentum=None))


def frozen() -> tuple[Any, tuple[int, ...]]:
    """Statistics of an earlier training, which later ones do not move."""
    import torch
    from torch import nn

    class Frozen(nn.BatchNorm1d):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    norm = Frozen(6)
    norm.load_state_dict({**norm.state_dict(), "running_mean": torch.ones(6), "running_var": 4 * torch.ones(6)})
    return normalized(norm)


def functional() -> tuple[Any, tuple[int, ...]]:
    """Not by a class of torch's."""
    import torch
    from torch import nn

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean: Any
            self.variance: Any
            self.register_buffer("mean", torch.zeros(6))
            self.register_buffer("variance", torch.ones(6))

        def forward(self, inputs: Any) -> Any:
            return torch.batch_norm(
                inputs,
                None,
                None,
                self.mean,
                self.variance,
                self.training,
                0.1,
                1e-5,
                False,
            )

    return normalized(Own())


def own_running_mean() -> tuple[Any, tuple[int, ...]]:
    import torch
    from torch import nn

    class RunningMean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean: Any
            self.table: Any
            self.register_buffer("mean", torch.zeros(6))
            self.register_buffer("table", torch.arange(6, dtype=torch.float32) / 7)
            self.dense = nn.Linear(6, 6)

        def forward(self, inputs: Any) -> Any:
            if self.training:
                with torch.no_grad():
                    self.mean = 0.9 * self.mean + 0.1 * inputs.mean(0)
                return self.dense(inputs + self.table)
            return self.dense(inputs + self.table - self.mean)

    return RunningMean(), (6,)


def spectral_norm() -> tuple[Any, tuple[int, ...]]:
    """Its buffers depend only on weights."""
    from torch import nn

    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 6)), nn.Tanh(), nn.Linear(6, 6)), (6,)


def scaled() -> tuple[Any, tuple[int, ...]]:
    import torch
    from torch import nn

    class Scaled(nn.Linear):
        def __init__(self) -> None:
            super().__init__(6, 6)
            self.factor: Any
            self.register_buffer("factor", torch.full((), 0.5))

        def forward(self, inputs: Any) -> Any:
            return super().forward(inputs) * self.factor

    return Scaled(), (6,)


def half() -> tuple[Any, tuple[int, ...]]:
    import torch
    from torch import nn

    class Half(nn.BatchNorm1d):
        def forward(self, inputs: Any) -> Any:
            return super().forward(inputs.to(torch.bfloat16)).float()

    return normalized(Half(6))


def norms() -> dict[str, Any]:
    from torch import nn

    return {
        "batch norm 1d": lambda: normalized(nn.BatchNorm1d(3), (3, 5)),
        "batch norm 3d": lambda: normalized(nn.BatchNorm3d(2), (2, 2, 3, 2)),
        "synchronized": lambda: normalized(nn.SyncBatchNorm(6)),
        "not affine": lambda: normalized(nn.BatchNorm1d(6, affine=False)),
        "untracked": lambda: normalized(nn.BatchNorm1d(6, track_running_stats=False)),
    }


def of_norms(name: str) -> Any:
    return lambda: norms()[name]()


MODULES: dict[str, Any] = {
    "resnet": resnet,
    "cumulative": cumulative,
    "frozen": frozen,
    "functional": functional,
    "own running mean": own_running_mean,
    "spectral norm": spectral_norm,
    "scaled": scaled,
    "half": half,
    **{name: of_norms(name) for name in ("batch norm 1d", "batch norm 3d", "synchronized", "not affine", "untracked")},
}
