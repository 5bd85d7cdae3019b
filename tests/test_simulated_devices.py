"""Simulated devices on JAX have the threads that they need, or are refused before the first step.

The network is the one that XLA ended the process for: a CIFAR ResNet that augments its images, on more devices than cores.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.harness.client import ROOT
from tests.harness.installed import skip_unless_installed

TWO_CORES = set(sorted(os.sched_getaffinity(0))[:2])

_RESNET = """
import json, sys
import abreast
abreast.use_cpu_devices(int(sys.argv[1]))
import keras
import numpy as np
from keras import layers

def block(x, filters, strides=1):
    y = layers.Conv2D(filters, 3, strides, padding="same", use_bias=False)(x)
    y = layers.Activation("relu")(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y))
    if x.shape[-1] != filters:
        x = layers.Conv2D(filters, 1, strides, use_bias=False)(x)
    return layers.Activation("relu")(layers.Add()([x, y]))

keras.utils.set_random_seed(0)
with abreast.DataParallel(devices=int(sys.argv[1])):
    images = x = keras.Input((32, 32, 3))
    for layer in (layers.RandomFlip("horizontal"), layers.RandomTranslation(0.1, 0.1), layers.RandomRotation(0.05)):
        x = layer(x)
    x = layers.Conv2D(16, 3, padding="same")(x)
    for filters, strides in ((16, 1), (32, 2)):
        x = block(x, filters, strides)
    x = layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(images, x)
    model.compile("adam", "sparse_categorical_crossentropy")
x = np.random.default_rng(0).random((int(sys.argv[2]) * 128, 32, 32, 3)).astype("float32")
losses = model.fit(x, np.arange(len(x)) % 10, batch_size=128, epochs=2, verbose=0).history["loss"]
print(json.dumps(losses))
"""

# The devices are JAX's own, and JAX starts before abreast is imported.
_STARTED = """
import jax
jax.devices()
import abreast
abreast.DataParallel(devices={devices})
"""

# The devices are JAX's own, and abreast is the first to ask for them.
_ASKED_OF_JAX = """
import abreast
parallel = abreast.DataParallel(devices=4)
from abreast.backend.jax import cpu_threads
cpu_threads._counted(20)
print(len(parallel.devices), cpu_threads.running())
"""


def run(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script under JAX, on two cores."""
    skip_unless_installed("jax")
    clean = {name: value for name, value in os.environ.items() if name not in ("PJRT_NPROC", "NPROC", "XLA_FLAGS")}
    own = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "src"), **environment}
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**clean, **own},
        preexec_fn=lambda: os.sched_setaffinity(0, TWO_CORES),
        capture_output=True,
        text=True,
        timeout=280,
    )


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@functools.cache
def losses(devices: int, steps: int) -> Any:
    return json.loads(printed(run(_RESNET, devices, steps)))


@pytest.mark.in_turn
@pytest.mark.jax
def test_a_network_that_augments_trains_on_four_devices_and_two_cores() -> None:
    assert np.isfinite(losses(devices=4, steps=2)).all()


@pytest.mark.jax
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("devices", [2, 4, 8, 16])
def test_any_number_of_devices_trains_on_two_cores_as_one_device(devices: int) -> None:
    assert losses(devices, steps=4) == pytest.approx(losses(1, steps=4), rel=1e-3)


@pytest.mark.in_turn
@pytest.mark.jax
def test_devices_that_were_asked_of_jax_have_threads_too() -> None:
    assert printed(run(_ASKED_OF_JAX, XLA_FLAGS="--xla_force_host_platform_device_count=4")) == "4 12"


@pytest.mark.in_turn
@pytest.mark.jax
@pytest.mark.parametrize(("variable", "threads"), [("NPROC", 20), ("PJRT_NPROC", 3)])
def test_a_larger_number_of_threads_that_the_user_set_stays(variable: str, threads: int) -> None:
    found = printed(run(_ASKED_OF_JAX, **{"JAX_NUM_CPU_DEVICES": "4", variable: str(threads)}))
    assert found == f"4 {max(threads, 12)}"


@pytest.mark.in_turn
@pytest.mark.jax
def test_devices_that_started_with_too_few_threads_are_refused() -> None:
    done = run(_STARTED.format(devices=4), JAX_NUM_CPU_DEVICES="4")
    assert done.returncode == 1
    assert "BackendError: JAX has already started, with 4 threads for 4 simulated devices" in done.stderr
    assert (
        "hint: call abreast.use_cpu_devices(4) before anything is computed, or set PJRT_NPROC=12 in the" in done.stderr
    )


@pytest.mark.in_turn
@pytest.mark.jax
@pytest.mark.parametrize(("devices", "threads"), [(4, "8"), (2, "2")])
def test_devices_that_started_with_enough_threads_are_accepted(devices: int, threads: str) -> None:
    done = run(_STARTED.format(devices=devices), JAX_NUM_CPU_DEVICES="4", PJRT_NPROC=threads)
    assert done.returncode == 0, done.stderr
