"""Cost of the row check on a first batch: seconds of the check alone, for a few models.

`KERAS_BACKEND=torch python benchmarks/row_check.py` (or `tensorflow`), on simulated devices; one JSON line per model and mode.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

from abreast.exact import install
from abreast.exact.relation_search import parts_to_look_at, relations
from abreast.feed import HostBatch

_DEVICES = 4


def mlp() -> tuple[Any, Any]:
    layers = [keras.layers.Dense(512, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((784,)), *layers, keras.layers.Dense(10)]), (784,)


def resnet50() -> tuple[Any, Any]:
    return keras.applications.ResNet50(weights=None, input_shape=(224, 224, 3)), (224, 224, 3)


def lstm() -> tuple[Any, Any]:
    layers = keras.layers
    return keras.Sequential([keras.Input((100, 32)), layers.LSTM(128), layers.Dense(10)]), (100, 32)


def transformer() -> tuple[Any, Any]:
    inputs = keras.Input((64, 128))
    x = inputs
    for _ in range(4):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(4, 32)(x, x))
        x = keras.layers.LayerNormalization()(
            x + keras.layers.Dense(128)(keras.layers.Dense(512, activation="gelu")(x))
        )
    return keras.Model(inputs, x), (64, 128)


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mlp": mlp,
    "resnet50": resnet50,
    "lstm": lstm,
    "transformer": transformer,
}


def probe(model: Any) -> Any:
    if keras.backend.backend() == "torch":
        from abreast.backend.torch.probe import TorchProbe

        return TorchProbe(model, on_gpu=False, with_gradients=False)
    from abreast.backend.tensorflow.probe import TensorFlowProbe

    return TensorFlowProbe(model, "/CPU:0")


def seconds(name: str, training: bool) -> float:
    """Seconds of the check alone, as at a first step on four devices with 128 rows."""
    model, shape = MODELS[name]()
    batch = HostBatch.of((np.random.default_rng(0).normal(size=(128, *shape)).astype("float32"),))
    parts = parts_to_look_at(batch.rows, batch.rows // _DEVICES, batch.num_bytes // batch.rows)[0]
    data = keras.ops.convert_to_tensor(batch.telling_rows(parts[0].total)[0])
    here = probe(model)
    start = time.perf_counter()
    found = relations(model, lambda x: model(x, training=training), data, parts, here, "train" if training else "test")
    assert not found, found
    return time.perf_counter() - start


def main() -> None:
    install()
    for name in sys.argv[1:] or MODELS:
        for training in (True, False):
            line = {"backend": keras.backend.backend(), "model": name, "training": training}
            print(json.dumps(line | {"seconds": round(seconds(name, training), 3)}), flush=True)


if __name__ == "__main__":
    main()
