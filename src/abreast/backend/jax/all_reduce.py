"""The time that JAX takes to sum a buffer over devices while nothing else runs. The doctor compares it with a step."""

from __future__ import annotations

import statistics
import time

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

_FLOAT_BYTES = 4
_TIMES = 7


def seconds(sharded: NamedSharding, replicated: NamedSharding, size_bytes: int) -> float:
    """Median duration of one sum; `sharded` has one row per device."""
    count = max(1, size_bytes // _FLOAT_BYTES)
    shape = (sharded.mesh.size, count)
    values = jax.jit(lambda: jnp.ones(shape, "float32"), out_shardings=sharded)()
    add = jax.jit(lambda rows: rows.sum(axis=0), out_shardings=replicated)
    add(values).block_until_ready()
    times = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        add(values).block_until_ready()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
