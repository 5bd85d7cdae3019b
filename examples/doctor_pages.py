"""Two pages of the doctor, for the same model: with a slow source and a slow callback, and with arrays.

    python examples/doctor_pages.py                          # writes doctor-slow.html and doctor-healthy.html here
    python examples/doctor_pages.py --images docs/images     # also makes the pictures in the documentation

Trains on two simulated devices, with the backend that `KERAS_BACKEND` names. The pictures need a browser and Pillow.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import abreast

abreast.use_cpu_devices(2)

import keras  # noqa: E402
import numpy as np  # noqa: E402

from abreast.doctor.diagnose import diagnose  # noqa: E402
from abreast.doctor.page import write_page  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
SIZE, BATCH_ROWS, NUM_BATCHES = 48, 64, 40
WIDTH = 1080


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder of the pages")
    parser.add_argument("--images", type=Path, help="folder of their pictures; made only if given")
    arguments = parser.parse_args()
    images, labels = _photos()
    sources: dict[str, dict[str, Any]] = {
        "slow": {"x": Packed(images, labels), "callbacks": [_slow_logger()]},
        "healthy": {
            "x": np.tile(images, (8, 1, 1, 1)),
            "y": np.tile(labels, 8),
            "batch_size": BATCH_ROWS,
        },  # long epochs
    }
    for name, source in sources.items():
        page = arguments.output / f"doctor-{name}.html"
        write_page(diagnose(_model(), **source, verbose=0), page)
        print(page)
        if arguments.images is not None:
            sys.path.insert(0, str(ROOT))
            from tests.harness.picture import picture

            picture(page, arguments.images / f"doctor-{name}.png", WIDTH)


class Packed(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
    """Compressed images, which one worker unpacks for each batch."""

    def __init__(self, images: Any, labels: Any) -> None:
        super().__init__(workers=1)
        self.packed = [zlib.compress(image.tobytes()) for image in images]
        self.labels = labels

    def __len__(self) -> int:
        return NUM_BATCHES

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        rows = range(index * BATCH_ROWS, (index + 1) * BATCH_ROWS)
        return np.stack([self._image(row) for row in rows]), self.labels[rows.start : rows.stop]

    def _image(self, row: int) -> Any:
        image = np.frombuffer(zlib.decompress(self.packed[row]), "uint8").reshape(SIZE, SIZE, 3)
        turned = [np.rot90(image, turns) for turns in range(4)]
        return np.median(turned, axis=0).astype("uint8")  # slow on purpose


def _photos() -> tuple[Any, Any]:
    draws = np.random.default_rng(0)
    num_rows = BATCH_ROWS * NUM_BATCHES
    return draws.integers(0, 256, (num_rows, SIZE, SIZE, 3), dtype="uint8"), draws.integers(0, 10, num_rows)


def _slow_logger() -> Any:
    """Stands for a callback that writes too much."""
    return keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.012))


def _model() -> keras.Model:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Conv2D(24, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ],
        name="small_convnet",
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return abreast.parallelize(model, 2)


if __name__ == "__main__":
    main()
