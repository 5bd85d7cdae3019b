"""Bodies of the tests of which batches a `fit` on records takes; they run in a worker. Imports Keras, and abreast late."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import psutil

SIZE, SEED = 12, 4


def model_of(optimizer: str = "adam", built: bool = True) -> Any:
    """A small network of images; Keras builds it by a first batch if it is not built."""
    layers = [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(2), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3), dtype="uint8"), *layers] if built else layers)
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


def fresh_model(devices: int, **settings: Any) -> Any:
    """The same each time, made where `DataParallel` holds; 0 devices is plain Keras."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    if not devices:
        return model_of(**settings)
    import abreast

    with abreast.DataParallel(devices=devices):
        return model_of(**settings)


def records(folder: str, batch_size: int, **settings: Any) -> Any:
    import abreast

    return abreast.ImageRecords(folder, batch_size, **{"size": SIZE, "seed": SEED, "num_threads": 2, **settings})


def digest(arrays: Sequence[Any]) -> str:
    """A digest of the bytes of arrays, their shapes and types."""
    found = hashlib.sha256()
    for array in map(np.asarray, arrays):
        found.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


@contextlib.contextmanager
def batches_fed() -> Iterator[list[str]]:
    """Digests of the batches that feeds read of their sources meanwhile, in their order."""
    from abreast.feed import Feed

    seen: list[str] = []
    plain = Feed.check

    def check(self: Any, batch: Any) -> Any:
        seen.append(digest([leaf for leaf in keras.tree.flatten(batch.data) if leaf is not None]))
        return plain(self, batch)

    Feed.check = check  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Feed.check = plain  # type: ignore[method-assign]


def num_decoding() -> int:
    """The process ids of our running decoding processes."""
    children = psutil.Process().children(recursive=True)
    return sum("decode_process" in " ".join(child.cmdline()) for child in children)


def fed_by_a_fit(folder: str, devices: int, batch_size: int, num_workers: int) -> dict[str, Any]:
    """The batches of two epochs, and the results of training on them."""
    model = fresh_model(devices)
    with batches_fed() as seen, records(folder, batch_size, num_workers=num_workers) as data:
        model.fit(data, epochs=2, verbose=0)
        working = num_decoding()
    return {"seen": seen, "weights": model.get_weights(), "working": working, "left": num_decoding()}


class _KilledBehind(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves model and place after a step, and kills the process."""

    def __init__(self, data: Any, folder: str, epoch: int, batch: int) -> None:
        super().__init__()
        self.data, self.folder, self.place, self.epoch = data, Path(folder), (epoch, batch), 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == self.place:
            self.model.save(self.folder / "model.keras")
            (self.folder / "state.json").write_text(json.dumps(self.data.state(self.epoch, batch + 1)))
            os.kill(os.getpid(), signal.SIGKILL)


def killed_in_a_fit(
    folder: str, saved: str, devices: int, batch_size: int, num_workers: int, epoch: int, batch: int
) -> None:
    model, data = fresh_model(devices), records(folder, batch_size, num_workers=num_workers)
    model.fit(data, epochs=3, callbacks=[_KilledBehind(data, saved, epoch, batch)], verbose=0)


def gone_on_with(folder: str, saved: str, devices: int, batch_size: int, num_workers: int) -> dict[str, Any]:
    """The rest of three epochs, from the saved state."""
    import abreast

    model = abreast.parallelize(keras.models.load_model(Path(saved) / "model.keras"), devices=devices)
    state = json.loads((Path(saved) / "state.json").read_text())
    with batches_fed() as seen, records(folder, batch_size, num_workers=num_workers) as data:
        data.restore(state)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Your input ran out of data")
            model.fit(data, initial_epoch=state["epoch"], epochs=3, verbose=0)
        place = data.state()
    return {"seen": seen, "weights": model.get_weights(), "place": (place["epoch"], place["batch"])}


def without_interruption(folder: str, devices: int, batch_size: int) -> Any:
    model = fresh_model(devices)
    with records(folder, batch_size) as data:
        model.fit(data, epochs=3, verbose=0)
    return model.get_weights()


def trained_on_whole_epochs(folder: str, devices: int, rows: int, built: bool, epochs: Sequence[int]) -> dict[str, Any]:
    """Calls of `fit`, each with a number of epochs of a single batch; and `evaluate` and `predict` between them."""
    model = fresh_model(devices, optimizer="sgd", built=built)
    places = []
    with records(folder, rows) as data, records(folder, rows, augment=False) as held_out:
        for count in epochs:
            model.fit(data, epochs=count, validation_data=held_out, verbose=0)
            place = data.state()
            places.append((place["epoch"], place["batch"]))
            model.evaluate(held_out, verbose=0)
    return {"weights": model.get_weights(), "places": places}


def trained_on_batches(batches: Sequence[tuple[Any, Any]], built: bool) -> Any:
    """The same by Keras alone: each batch is an epoch."""
    model = fresh_model(0, optimizer="sgd", built=built)
    for images, labels in batches:
        model.fit(images, labels, len(images), shuffle=False, verbose=0)
    return model.get_weights()
