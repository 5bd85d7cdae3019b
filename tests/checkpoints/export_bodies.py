"""What workers do for the tests of `abreast checkpoints export`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def snapshot_of(model: Any) -> Any:
    """A snapshot with the parts that `export` needs, as a training saves them."""
    import keras
    import numpy as np

    from abreast.checkpoints.snapshot import Snapshot

    optimizer = getattr(model, "optimizer", None)
    groups = {"model": model.variables, "optimizer": optimizer.variables if optimizer is not None else []}
    tensors = {
        f"{group}/{number}/{variable.path}": np.array(keras.ops.convert_to_numpy(variable))
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }
    config = json.dumps(keras.saving.serialize_keras_object(model))
    return Snapshot(tensors, {"fit": 0, "epoch": 1, "steps": 2, "model": {"config": config}})


def trained() -> Any:
    import keras
    import numpy as np

    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((4,)), layers.Dense(3), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.01, use_ema=True), "mse")
    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    model.fit(x, x[:, :1], batch_size=8, verbose=0)
    return model


def export_and_load(folder: str) -> dict[str, Any]:
    """Export a trained model, load the file with Keras alone, and train both one step further."""
    import keras
    import numpy as np

    from abreast.checkpoints.write import write_checkpoint
    from abreast.cli import main

    os.chdir(folder)
    model = trained()
    write_checkpoint("ckpt", "fit0000-000001-000000002", snapshot_of(model))
    code = main(["checkpoints", "ckpt", "export"])
    loaded = keras.models.load_model("model.keras")
    x = np.random.default_rng(1).normal(size=(8, 4)).astype("float32")
    same = bool((model.predict(x, verbose=0) == loaded.predict(x, verbose=0)).all())
    steps = int(np.array(keras.ops.convert_to_numpy(loaded.optimizer.iterations)))
    return {"code": code, "same": same, "steps": steps, "files": sorted(os.listdir(folder))}


def errors(folder: str) -> list[str]:
    """The messages of exports that cannot be done."""
    import keras

    from abreast.checkpoints.export import export, fill
    from abreast.checkpoints.snapshot import Snapshot
    from abreast.checkpoints.write import write_checkpoint
    from abreast.errors import AbreastError

    class Mine(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],))

        def call(self, x: Any) -> Any:
            return x * self.scale

    def made() -> Any:
        return keras.Sequential([keras.layers.Input((4,)), Mine(), keras.layers.Dense(1)])

    hidden = keras.Sequential([keras.layers.Input((4,)), keras.layers.Lambda(lambda x: x)])
    dense = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    whole = snapshot_of(dense)
    short = Snapshot({"model/kernel": whole.tensors["model/0/" + dense.variables[0].path]}, whole.values)
    turned = Snapshot({name: array.T.copy() for name, array in whole.tensors.items()}, whole.values)
    place = Path(folder)
    for name, snapshot in {
        "mine": snapshot_of(made()),
        "lambda": snapshot_of(hidden),
        "short": short,
        "turned": turned,
        "none": Snapshot({}, {}),
    }.items():
        write_checkpoint(place / name, "0001", snapshot)
    found = []
    for name, target in [
        *((name, "model.keras") for name in ("mine", "lambda", "short", "turned", "none", "missing")),
        ("mine", "model.h5"),
    ]:
        try:
            export(place / name, place / target)
            found.append("exported")
        except AbreastError as error:
            found.append(str(error))
    try:
        export(place / "mine", place / "model.keras", "../mine/0001")
    except AbreastError as error:
        found.append(str(error))
    model = made()
    fill(model, place / "mine")  # the lines of the hint
    model.save(place / "model.keras")
    return [*found, *sorted(path.name for path in place.iterdir() if path.is_file())]


def export_what_a_fit_saved(folder: str) -> dict[str, Any]:
    """Train on two devices with `abreast.Checkpoint`, export each of its checkpoints, and compare the newest with the model."""
    import keras
    import numpy as np

    import abreast
    from abreast.cli import main

    os.chdir(folder)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((4,)), layers.Dense(3), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.01, use_ema=True), "mse", metrics=["mae"])
    model = abreast.parallelize(model, devices=2)
    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    callback = abreast.Checkpoint("ckpt", every=2)
    model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0, callbacks=[callback])
    names = sorted(os.listdir("ckpt"))
    codes = [main(["checkpoints", "ckpt", "export", name, "-o", f"{name}.keras"]) for name in names if name[0] != "."]
    codes += [main(["checkpoints", "ckpt", "export"]), main(["checkpoints", "ckpt", "verify"])]
    loaded = keras.models.load_model("model.keras")
    difference = np.abs(model.predict(x, verbose=0) - loaded.predict(x, verbose=0)).max()
    steps = int(np.array(keras.ops.convert_to_numpy(loaded.optimizer.iterations)))
    return {"codes": codes, "difference": float(difference), "steps": steps}
