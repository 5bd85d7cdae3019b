"""JAX's devices by the names of abreast, and how arrays lie on several of them. Imports JAX."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax._src.xla_bridge import backends_are_initialized
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from abreast.backend.jax import cpu_threads
from abreast.device_list import list_devices

# The GPUs that abreast chose for JAX, if any; JAX numbers them from 0.
VISIBLE: list[str] = []
# Device names of all processes, in JAX's order, if a launcher started several processes.
OF_ALL_PROCESSES: list[str] = []


def device_names() -> tuple[str, ...]:
    """Every device that this process can drive; GPUs by the driver's numbers."""
    cpu_threads.provide_for_settings()
    return tuple(VISIBLE) or gpus_of_driver() or tuple(f"{platform()}:{i}" for i in range(len(jax.local_devices())))


def platform() -> str:
    """The kind of device that JAX runs on, as written in a device's name."""
    name = jax.default_backend()
    return "gpu" if name in ("cuda", "rocm") else name


def index_of(name: str) -> int:
    return int(name.partition(":")[2])


def gpus_of_driver() -> tuple[str, ...]:
    """NVIDIA GPUs that JAX would find, read before it starts: a query to JAX itself would take memory on every GPU."""
    platforms: Any = getattr(jax.config, "jax_platforms", None)
    if backends_are_initialized() or platforms == "cpu" or not _has_cuda():
        return ()
    return tuple(device.name for device in list_devices() if device.name.startswith("gpu:"))


def _has_cuda() -> bool:
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") is not None for version in (12, 13, 14))


@lru_cache(maxsize=64)
def _mesh(devices: tuple[str, ...]) -> Mesh:
    names = OF_ALL_PROCESSES or VISIBLE or [f"{platform()}:{index}" for index in range(len(jax.local_devices()))]
    by_name = dict(zip(names, jax.devices() if OF_ALL_PROCESSES else jax.local_devices(), strict=True))
    return Mesh(np.array([by_name[name] for name in devices]), ("batch",))


@lru_cache(maxsize=64)
def sharded_over(devices: tuple[str, ...]) -> NamedSharding:
    """A sharding with an equal part of the rows on each device."""
    return NamedSharding(_mesh(devices), PartitionSpec("batch"))


@lru_cache(maxsize=64)
def replicated_over(devices: tuple[str, ...]) -> NamedSharding:
    """A sharding with the whole array on each device."""
    return NamedSharding(_mesh(devices), PartitionSpec())


def placed(values: list[Any], sharding: NamedSharding) -> list[Any]:
    """The values with this sharding. Those that have it are returned: `device_put` takes 30 microseconds for each of them."""
    are_there = [isinstance(value, jax.Array) and value.committed and value.sharding == sharding for value in values]
    others = [value for value, is_there in zip(values, are_there, strict=True) if not is_there]
    put = iter(jax.device_put(others, sharding) if others else ())
    return [value if is_there else next(put) for value, is_there in zip(values, are_there, strict=True)]
