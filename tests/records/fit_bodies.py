"""Bodies of the tests of `ImageRecords` in Keras; they run in a worker."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.harness.client import ROOT

BATCH, SIZE, SEED = 5, 12, 4


def model_on(devices: int, outputs: int = 1) -> Any:
    """A small network of images; 0 devices is plain Keras."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    images = keras.Input((SIZE, SIZE, 3), dtype="uint8")
    flat = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(images))
    heads = [keras.layers.Dense(1, name=name)(flat) for name in ("label", "weight")[:outputs]]
    model = keras.Model(images, dict(zip(("label", "weight"), heads, strict=False)) if outputs > 1 else heads[0])
    model.compile(keras.optimizers.SGD(1e-3), "mse", weighted_metrics=["mae"] if outputs == 1 else None)
    if not devices:
        return model
    import abreast

    return abreast.parallelize(model, devices=devices)


def records(folder: str, **settings: Any) -> Any:
    import abreast

    return abreast.ImageRecords(folder, BATCH, **{"size": SIZE, "seed": SEED, "num_threads": 2, **settings})


def trained_on_classes(folder: str, devices: int, targets: str) -> dict[str, Any]:
    """A classifier of the classes of one column, on batches whose last one does not divide by the devices."""
    import abreast

    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    with records(folder, targets=targets) as data:
        outputs = keras.layers.Dense(len(data.class_names), activation="softmax")
        model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), outputs])
        model.build((None, SIZE, SIZE, 3))
        model.compile(keras.optimizers.SGD(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
        if devices:
            model = abreast.parallelize(model, devices=devices)
        history = model.fit(data, epochs=2, verbose=0).history
        return {"weights": model.get_weights(), "history": history, "class_names": data.class_names}


def fitted_with_validation(folder: str, held_out: str, **settings: Any) -> int:
    """Fit one epoch on words, with validation; the number of epochs in the history."""
    model = model_on(devices=2)
    with records(folder, targets="species") as data, records(held_out, targets="species", **settings) as validation:
        return len(model.fit(data, validation_data=validation, epochs=1, verbose=0).history["val_loss"])


def trained_on_records(folder: str, devices: int, **settings: Any) -> dict[str, Any]:
    model = model_on(devices)
    with records(folder, **settings) as data, records(folder, augment=False) as held_out:
        history = model.fit(data, epochs=2, validation_data=held_out, verbose=0).history
        place = data.state()
        images = records(folder, augment=False, targets=None)
        predicted = model.predict(images, verbose=0)
        evaluated = model.evaluate(held_out, verbose=0)
    return {
        "weights": model.get_weights(),
        "history": history,
        "place": (place["epoch"], place["batch"]),
        "predicted": predicted,
        "evaluated": evaluated,
        "threads": [thread.name for thread in threading.enumerate() if thread.name.startswith("abreast")],
    }


def trained_on_arrays(epochs: Sequence[tuple[Any, ...]], held_out: tuple[Any, Any]) -> dict[str, Any]:
    """The same by Keras alone: images, labels and perhaps weights of each epoch, in its order."""
    model = model_on(0)
    history: dict[str, list[float]] = {}
    for epoch in epochs:
        x, y, *weights = epoch
        fitted = model.fit(
            *(x, y, BATCH),
            shuffle=False,
            verbose=0,
            sample_weight=weights[0] if weights else None,
            validation_data=held_out,
        )
        for name, values in fitted.history.items():
            history.setdefault(name, []).extend(values)
    return {
        "weights": model.get_weights(),
        "history": history,
        "predicted": model.predict(held_out[0], BATCH, verbose=0),
        "evaluated": model.evaluate(*held_out, BATCH, verbose=0),
    }


class _StopAt(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, data: Any, epoch: int, batch: int) -> None:
        super().__init__()
        self.data, self.epoch, self.batch, self.present = data, epoch, batch, 0
        self.saved: Any = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.present = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.present, batch) == (self.epoch, self.batch):
            if hasattr(self.model, "jax_state_sync"):
                self.model.jax_state_sync()
            self.saved = self.data.state(self.present, batch + 1), self.model.get_weights()
            raise KeyboardInterrupt


def stopped_and_restored(folder: str, devices: int, epoch: int, batch: int) -> dict[str, Any]:
    """Weights of two epochs that stopped after a step, and continued in another model with another loader."""
    data = records(folder)
    model = model_on(devices)
    stop = _StopAt(data, epoch, batch)
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(data, epochs=2, callbacks=[stop], verbose=0)
    state, weights = stop.saved
    del data, model
    again, data = model_on(devices), records(folder)
    again.set_weights(weights)
    data.restore(state)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Your input ran out of data")
        again.fit(data, initial_epoch=epoch, epochs=2, verbose=0)
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("abreast")]
    return {"weights": again.get_weights(), "threads": names}


def trained_on_several_columns(folder: str, devices: int) -> dict[str, Any]:
    model = model_on(devices, outputs=2)
    data = records(folder, targets=("label", "weight"), weights="weight")
    history = model.fit(data, epochs=1, verbose=0).history
    return {"names": sorted(history), "weights": model.get_weights()}


def batches_of_a_loop(folder: str) -> list[tuple[Any, Any]]:
    return [(np.array(images), np.array(labels)) for images, labels in records(folder)]


def tensors_of_batches(folder: str) -> list[Any]:
    """Batches as tensors, of which a framework may have taken the memory where it is; the arrays are let go."""
    tensors = [keras.ops.convert_to_tensor(images) for _ in range(2) for images, _ in records(folder)]
    return [np.array(keras.ops.convert_to_numpy(tensor)) for tensor in tensors]


def memory_of_a_fit(folder: str, devices: int) -> dict[str, Any]:
    """How many places batches were made in, and whether the feed copied any."""
    from abreast.feed.reuse import ReuseGuard
    from abreast.records.decoding.batch_memory import BatchMemory

    places, copied = [], []
    plain_array, plain_guard = BatchMemory.array, ReuseGuard.guard

    def array(self: Any, shape: tuple[int, ...]) -> Any:
        made = plain_array(self, shape)
        places.append(made.ctypes.data)
        return made

    def guard(self: Any, data: Any, num_finished: int) -> Any:
        given = plain_guard(self, data, num_finished)
        copied.append(given is not data)
        return given

    BatchMemory.array, ReuseGuard.guard = array, guard  # type: ignore[method-assign]
    try:
        model_on(devices).fit(records(folder), epochs=8, verbose=0)
    finally:
        BatchMemory.array, ReuseGuard.guard = plain_array, plain_guard  # type: ignore[method-assign]
    return {"batches": len(places), "places": len(set(places)), "copied": sum(copied)}


def fitted_with(folder: str, **arguments: Any) -> None:
    model_on(2).fit(records(folder), verbose=0, **arguments)


def pixels_on(folder: str, devices: int) -> Any:
    """The rows that arrive on the devices in an epoch of random parts, in their order, as floats."""
    import abreast

    images = keras.Input((SIZE, SIZE, 3), dtype="uint8")
    model = keras.Model(images, keras.layers.Rescaling(1.0)(images))
    with records(folder, targets=None) as data:
        return abreast.parallelize(model, devices=devices).predict(data, verbose=0)


def waits_of_a_fit(folder: str, devices: int, slow_seconds: float) -> dict[str, float]:
    """The share of the time that steps wait for input, and the rates of reader and model, in rows per second."""
    import abreast
    from abreast.records.decoding.resize import Painter

    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    convolutions = [keras.layers.Conv2D(24 * n, 3, strides=n, activation="relu") for n in (1, 2)]
    layers = [keras.Input((64, 64, 3), dtype="uint8"), keras.layers.Rescaling(1 / 255), *convolutions]
    model = keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    model = abreast.parallelize(model, devices=devices)
    plain = Painter.finish

    def finish(*arguments: Any) -> None:
        time.sleep(slow_seconds)
        plain(*arguments)

    if slow_seconds:
        Painter.finish = finish  # type: ignore[assignment, method-assign]
    try:
        with abreast.ImageRecords(folder, 32, size=64, num_threads=1) as data:
            begin = time.perf_counter()
            rows = sum(len(images) for images, _ in data)
            seconds = time.perf_counter() - begin
            timeline = abreast.Timeline(sample_seconds=None)
            model.fit(data, epochs=2, callbacks=[timeline], verbose=0)
    finally:
        Painter.finish = plain  # type: ignore[method-assign]
    steps = timeline.steps[timeline.steps["epoch"] > 0]  # the first compiles
    wait, wall = float(steps["wait"].sum()), float(steps["wall"].sum())
    first = float(steps["wait"][steps["step"] == 0].sum()) / wall  # of epochs
    return {
        "wait": wait / wall,
        "wait_of_first": first,
        "reader": rows / seconds,
        "model": float(steps["rows"].sum()) / (wall - wait),
    }


def accuracies(folder: str, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Losses of one network, trained on records and on Pillow's parts of the files: the same parts in the same order."""
    from abreast.records import RandomCrop, pack
    from tests.records import by_pillow

    spec = importlib.util.spec_from_file_location("images_example", ROOT / "examples" / "images.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    photos, packs = example.photographs(Path(folder) / "photos"), Path(folder) / "packs"
    pack(photos, packs, split={"train": 0.8, "test": 0.2})
    crop, epochs = RandomCrop(scale=(0.3, 1.0)), 10
    settings: dict[str, Any] = {"batch_size": 32, "size": 48}
    found: dict[str, list[float]] = {"records": [], "pillow": []}
    for seed in seeds:
        for name, accuracy in found.items():
            import abreast

            train = abreast.ImageRecords(packs / "train", augment=crop, seed=seed, **settings)
            test = abreast.ImageRecords(packs / "test", augment=False, **settings)
            keras.utils.clear_session()
            keras.utils.set_random_seed(seed)
            model = example.build_model(train, epochs * len(train))
            if name == "records":
                model.fit(train, epochs=epochs, verbose=0)
                accuracy.append(model.evaluate(test, verbose=0)[1])
                continue
            for epoch in range(epochs):
                x, y = by_pillow.epoch_of(train, photos, crop, seed, epoch)
                model.fit(x, y, 32, initial_epoch=epoch, epochs=epoch + 1, shuffle=False, verbose=0)
            accuracy.append(model.evaluate(*by_pillow.centres(test, photos), 32, verbose=0)[1])
    return found
