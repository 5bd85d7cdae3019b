"""Probes of abreast that are not whole jobs, such as staging and the state after a failure. Run in a worker with devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.contract.cases import Case, Job, reset


def shards_staged_by_fit(devices: int) -> list[Any]:
    """For each batch of a fit of 26 rows by 8 of `uint8` images, the shard of each device: `(device, rows, type, bytes)`."""
    import abreast
    from abreast.backend import current_backend

    backend: Any = current_backend()
    staged = []
    plain = backend.put

    def put(batch: Any, placement: Any) -> Any:
        result = plain(batch, placement)
        staged.append(_shards_on_devices(backend.name, result, batch))
        return result

    backend.put = put
    try:
        model = _image_model()
        abreast.parallelize(model, devices=devices)
        x = np.random.default_rng(0).integers(0, 256, (26, 4, 4, 3)).astype("uint8")
        model.fit(x, np.zeros((26, 1), "float32"), batch_size=8, shuffle=False, verbose=0)
    finally:
        del backend.put
    return staged


def _image_model() -> Any:
    import keras

    reset("float32")
    layers = [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.layers.Input((4, 4, 3), dtype="uint8"), *layers])
    model.compile("sgd", "mse")
    return model


def _shards_on_devices(name: str, staged: Any, batch: Any) -> Any:
    if name == "jax":
        x = staged.data[0]
        if isinstance(x, np.ndarray):  # one CPU device: the program takes it as it is
            return [_about(0, x)]
        return [_about(shard.device.id, shard.data) for shard in x.addressable_shards]
    if name == "tensorflow":
        return [_about(shard[0].device[-1:], shard[0]) for shard in staged.shards]
    own = _about(0, staged.own.ready()[0])
    if staged.sent is None:  # the workers start with the first step, which sends them their shards
        return [own, *(_about(rank, shard[0]) for rank, shard in enumerate(batch.cut(len(staged.counts))) if rank)]
    writers = staged.team._writers
    return [own, *(_in_slot(rank, writers[rank], sent) for rank, sent in enumerate(staged.sent, start=1))]


def _in_slot(rank: int, writer: Any, descriptor: bytes) -> Any:
    """The content of a worker's memory, read as the worker reads it."""
    from abreast.backend.torch.shards import _DESCRIPTOR

    _, slot, layout = _DESCRIPTOR.unpack_from(descriptor)
    return _about(rank, writer._views[slot][layout][0])


def _about(device: Any, array: Any) -> tuple[str, int, str, int]:
    dtype = str(getattr(array.dtype, "name", array.dtype)).removeprefix("torch.")
    return str(device), int(array.shape[0]), dtype, int(np.asarray(array).nbytes)


def weights_after_a_failed_fit(devices: int) -> dict[str, Any]:
    """Weights and optimizer state after a callback raised in the third batch, and whether the model trains on."""
    import keras

    class Raise(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                raise RuntimeError("no more")

    job = _job(Case(), devices)
    try:
        job.model.fit(**job.fit_arguments(), callbacks=[Raise()])
    except RuntimeError as error:
        if "no more" not in str(error):
            raise
    else:
        raise AssertionError("the callback's error did not reach the caller")
    weights = _state(job.model)
    job.model.fit(**job.fit_arguments())
    return weights


def weights_after_two_steps(devices: int) -> dict[str, Any]:
    """The results of the failed fit at its last finished step."""
    job = _job(Case(), devices)
    x, y = job.data.between(0, 16)
    job.model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    return _state(job.model)


def weights_with_and_without_the_last_rows(devices: int) -> dict[str, float]:
    """How far two models end from one another when only the rows of the last device differ."""
    ends = []
    for factor in (1.0, -1.0):
        job = _job(Case(loss="mse"), devices)
        job.data.x[6:8] *= factor  # of a batch of 8: the last device's
        job.model.fit(*job.data.between(0, 8), batch_size=8, verbose=0)
        ends.append(np.concatenate([np.ravel(weight) for weight in job.model.get_weights()]))
    return {"difference": float(np.abs(ends[0] - ends[1]).max())}


def draws_of_dropout(devices: int) -> Any:
    """The result of dropout on ones in training, read through the loss of a model whose output is the dropped input."""
    import keras

    reset("float32")
    inputs = keras.Input((64,))
    model = keras.Model(inputs, keras.layers.Dropout(0.5, seed=1)(inputs))
    kept = _Kept()
    model.compile("sgd", loss="mse", metrics=[kept])
    import abreast

    abreast.parallelize(model, devices=devices)
    rows = np.ones((devices, 64), "float32")
    model.fit(rows, np.zeros_like(rows), batch_size=devices, epochs=1, verbose=0)
    return np.asarray(kept.rows.numpy())[:devices]


def new_dtype_policy() -> tuple[Any, Any]:
    """The output of a layer on 2 devices, before and after its policy changes to bfloat16."""
    import keras

    import abreast

    reset("float32")
    layer = keras.layers.Dense(5)
    model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Activation("linear", dtype="float32")])
    abreast.parallelize(model, devices=2)
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    before = [model.predict(x, verbose=0) for _ in range(2)][1]  # PyTorch's ranks get the model twice: unused, and used
    layer.dtype_policy = "mixed_bfloat16"
    model.predict_function = None  # JAX and TensorFlow keep what they have compiled
    return before, model.predict(x, verbose=0)


def _Kept() -> Any:  # noqa: N802
    import keras
    from keras import ops

    class Kept(keras.metrics.Metric):  # type: ignore[misc]
        """The predictions of the last batch."""

        def __init__(self) -> None:
            super().__init__(name="kept")
            self.rows = self.add_weight(shape=(4, 64), name="rows", initializer="zeros")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.rows.assign(ops.concatenate([y_pred, self.rows.value])[:4])

        def result(self) -> Any:
            return ops.sum(self.rows)

    return Kept()


def local_batch_norm(devices: int, rows: int) -> dict[str, Any]:
    """Weights before and after one step of one batch by SGD(0.125) on BatchNormalization and Dense, with the data."""
    import keras

    reset("float64")
    random = np.random.default_rng(3)
    x, y = random.normal(size=(rows, 3)) * 2 + 1, random.normal(size=(rows, 1))
    norm = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3)
    model = keras.Sequential([keras.Input((3,)), norm, keras.layers.Dense(1)])
    for weight in model.weights:
        if weight.name not in ("moving_mean", "moving_variance"):
            weight.assign(random.uniform(0.5, 1.5, weight.shape))
    model.compile(keras.optimizers.SGD(0.125), "mse")
    names = [weight.name for weight in model.weights]
    before = dict(zip(names, model.get_weights(), strict=True))
    if devices:
        import abreast

        abreast.parallelize(model, devices=devices, batch_norm="local")
    history = model.fit(x, y, batch_size=rows, verbose=0, shuffle=False)
    after = dict(zip(names, model.get_weights(), strict=True))
    return {"x": x, "y": y, "before": before, "after": after, "loss": history.history["loss"][0]}


def _job(case: Case, devices: int) -> Job:
    from tests.contract.scripts import Recorder

    reset(case.policy)
    return Job(case, devices, Recorder())


def _state(model: Any) -> dict[str, Any]:
    from tests.contract.scripts import state

    return state(model)


def weights_after_two_averaging_fits(devices: int) -> dict[str, Any]:
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9, use_ema=True, ema_momentum=0.8), "mse")
    abreast.parallelize(model, devices)
    x = np.random.default_rng(0).normal(size=(44, 6)).astype("float32")
    for _ in range(2):
        model.fit(x, x[:, :1], batch_size=8, verbose=0)
    return {str(i): np.array(each) for i, each in enumerate(model.weights)}


def weights_that_begin_alike(devices: int) -> dict[str, Any]:
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(6), keras.layers.Dense(1)]
    )
    model.layers[1].kernel.assign(model.layers[0].kernel)
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices)
    x = np.random.default_rng(0).normal(size=(44, 6)).astype("float32")
    model.fit(x, x[:, :1], batch_size=8, verbose=0)
    return {str(i): np.array(each) for i, each in enumerate(model.weights)}
