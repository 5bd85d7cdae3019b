"""TensorFlow's devices, by the names of abreast and by its own. Imports TensorFlow."""

from __future__ import annotations

import functools

import tensorflow as tf

OWN: list[str] = []  # TensorFlow's names of this process's devices, if a launcher started several processes


def device_names() -> tuple[str, ...]:
    """Every device that this process can drive, by the names of abreast."""
    if gpus := visible_gpus():
        return gpus
    cpu = tf.config.list_physical_devices("CPU")[0]
    return tuple(f"cpu:{index}" for index in range(len(tf.config.get_logical_device_configuration(cpu) or [cpu])))


def visible_gpus() -> tuple[str, ...]:
    """Names of the visible GPUs by the driver's numbers; TensorFlow numbers the visible GPUs from 0."""
    gpus = tf.config.list_physical_devices("GPU")
    return tuple(f"gpu:{gpus.index(gpu)}" for gpu in tf.config.get_visible_devices("GPU"))


@functools.cache
def computes_on_gpus() -> bool:
    """Whether there are visible GPUs, cached for every step. Call it after TensorFlow has started: they no longer change."""
    return bool(visible_gpus())


def tf_names(devices: tuple[str, ...]) -> tuple[str, ...]:
    """TensorFlow's own names of these devices; in a job of several processes, the names of this process's devices."""
    if devices[0].startswith("rank:"):
        return tuple(OWN)
    visible = visible_gpus()
    return tuple(f"/GPU:{visible.index(name)}" if name in visible else f"/{name.upper()}" for name in devices)


def grow_memory() -> None:
    """Make TensorFlow allocate GPU memory as needed, if that can still be chosen."""
    for gpu in tf.config.get_visible_devices("GPU"):
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError:
            return
