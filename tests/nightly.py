"""`make check-nightly`: does abreast import, and train as plain Keras does, with the Keras that is first on the path?

One process per backend imports every module of abreast that it can, then trains one model with plain Keras and on two
simulated devices. Exit code 1 if anything fails. Without pytest, so that it takes about a minute.

    python -m tests.nightly                  # every backend
    python -m tests.nightly --backends jax   # one
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import subprocess
import sys
import time
from typing import Any

from tests.harness.differences import largest_difference

BACKENDS = ("jax", "tensorflow", "torch")
LIMIT_SECONDS = 300
MOST_DIFFERENCE = 1e-5
OF_EXTRAS = ("ray",)  # imported at the top of a module, and not installed by `make`
ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--here", choices=BACKENDS, help=argparse.SUPPRESS)  # in the process of a backend
    arguments = parser.parse_args()
    if arguments.here:
        check(arguments.here)
        return 0
    failed = [backend for backend in arguments.backends if not passes(backend)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def passes(backend: str) -> bool:
    start = time.perf_counter()
    command = [sys.executable, "-m", "tests.nightly", "--here", backend]
    environment = {**os.environ, **ENVIRONMENT, "KERAS_BACKEND": backend}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired as error:
        print(f"{backend}: no answer in {LIMIT_SECONDS} s\n{(error.stderr or b'')[-4000:].decode()}", file=sys.stderr)
        return False
    if done.returncode:
        print(f"{backend}: exit code {done.returncode}\n{done.stderr[-4000:]}", file=sys.stderr)
        return False
    print(f"{done.stdout.strip().splitlines()[-1]}, {time.perf_counter() - start:.0f} s", flush=True)
    return True


def check(backend: str) -> None:
    """Import and train in this process; raises any error."""
    import abreast

    abreast.use_cpu_devices(2)
    import keras

    modules = [name for name in modules_of(abreast) if is_for(name, backend) and is_imported(name)]
    plain, placed = trained(model()), trained(abreast.parallelize(model(), 2))
    found = largest_difference(plain, placed)
    assert found < MOST_DIFFERENCE, f"plain Keras and two devices differ by {found:.1e}"
    print(f"Keras {keras.__version__}, {backend}: {len(modules)} modules, difference {found:.1e}")


def modules_of(package: Any) -> list[str]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda _: None)
    return [each.name for each in found if not each.name.endswith("__main__")]


def is_imported(module: str) -> bool:
    """Whether a module can be imported; False only for want of a package of an extra."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in OF_EXTRAS:
            raise
        return False
    return True


def is_for(module: str, backend: str) -> bool:
    """Whether no part of its name belongs to another framework."""
    parts = {part.removeprefix("native_") for part in module.split(".")}
    return not parts & (set(BACKENDS) - {backend})


def model() -> Any:
    import keras

    keras.utils.set_random_seed(1)
    layers = [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization()]
    model = keras.Sequential([*layers, keras.layers.Dense(1, activation="sigmoid")])
    # Not Adam: it makes whole steps of the rounding in the gradient of the bias before BatchNormalization, which is zero.
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "binary_crossentropy", metrics=["accuracy"])
    return model


def trained(model: Any) -> list[Any]:
    """Losses and metrics, those of a later call, predictions and weights."""
    import numpy as np

    x = np.random.default_rng(0).random((50, 4), "float32")
    y = (x.sum(axis=1) > 2).astype("float32")
    history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False, validation_data=(x, y)).history
    return [
        *history.values(),
        model.evaluate(x, y, verbose=0),
        model.predict(x, batch_size=20, verbose=0),
        *model.get_weights(),
    ]


if __name__ == "__main__":
    sys.exit(main())
