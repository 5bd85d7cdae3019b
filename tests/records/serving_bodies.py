"""The body of a test of `view`; it runs in a worker. Imports Keras, and abreast late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np


def served(folder: str, photos: str) -> dict[str, Any]:
    """Images, predictions and losses, each from records and from views of the files."""
    import abreast
    from abreast.records import view, view_settings

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((32, 32, 3), dtype="uint8"), *layers])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    settings: dict[str, Any] = {"batch_size": 7, "size": 32, "augment": False}
    held_out = abreast.ImageRecords(folder, **settings)
    views = view(sorted(map(str, Path(photos).iterdir())), **view_settings(held_out))
    images, _ = held_out[0]
    alone = abreast.ImageRecords(folder, targets=None, **settings)
    return {
        "images": (images, views),
        "predicted": [model.predict(source, 7, verbose=0) for source in (alone, views)],
        "evaluated": (
            model.evaluate(held_out, verbose=0),
            model.evaluate(views, np.arange(len(views)) % 3, 7, verbose=0),
        ),
    }
