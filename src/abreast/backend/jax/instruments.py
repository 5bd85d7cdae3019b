"""Instruments of JAX: times of devices, the profiler, the random generator, all-reduce timed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import jax
import numpy as np

from abreast.backend.contract import Placement
from abreast.backend.instruments import Defaults, DeviceTimes, Tracer
from abreast.backend.jax import all_reduce
from abreast.backend.jax.devices import OF_ALL_PROCESSES, platform, replicated_over, sharded_over
from abreast.backend.jax.trace import JaxTracer
from abreast.feed import HostBatch


class JaxInstruments(Defaults):
    """See `backend/instruments.py`. JAX has no global random generator: keys are Keras's variables."""

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        if placement is None:
            return DeviceTimes((f"{platform()}:0",), all_reduce=True)
        if placement.num_devices == 1:
            return DeviceTimes(placement.devices, all_reduce=True)
        own = (f"rank:{jax.process_index()}",) if OF_ALL_PROCESSES else placement.devices
        return DeviceTimes(own, False, ("JAX sums in the program that computes: all-reduce is not told apart",))

    def mark(self, outputs: Any) -> jax.Array | None:
        for leaf in outputs.values() if isinstance(outputs, dict) else jax.tree.leaves(outputs):  # at every step: quick
            if hasattr(leaf, "block_until_ready"):
                array: jax.Array = leaf
                return array
        return None

    def finished(self, mark: jax.Array) -> tuple[int, ...]:
        num_devices = mark.sharding.num_devices
        if num_devices == 1:
            mark.block_until_ready()
            return (perf_counter_ns(),)
        times = []
        for index in range(num_devices):  # a device that finishes before one of lower index gets that one's time
            mark.addressable_data(index).block_until_ready()
            times.append(perf_counter_ns())
        return tuple(times)

    def trace(self, logdir: str) -> Tracer:
        return JaxTracer(logdir)

    def random_state(self, model: Any) -> None:
        return None

    def set_random_state(self, state: None, model: Any) -> None:
        pass

    def keep_buffers(self, model: Any) -> None:
        return None

    def rest(self, model: Any) -> None:
        model.jax_state_sync()

    def keep_assigned(self, model: Any) -> None:
        # At the end of an epoch, Keras sets the state that it kept from the last step, and would undo later assignments.
        if state := getattr(model, "_jax_state", None):
            model._jax_state = dict(zip(state, model._get_jax_state(**dict.fromkeys(state, True)), strict=True))

    def build(self, model: Any, first_batch: Callable[[], HostBatch]) -> None:
        pass  # Keras's `fit` has built it

    def view(self, variable: Any) -> np.ndarray:
        return np.asarray(variable)

    def read_buffers(self, model: Any) -> dict[str, Any]:
        return {}

    def write_buffers(self, model: Any, values: Mapping[str, Any]) -> None:
        pass

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        if OF_ALL_PROCESSES:
            return 0.0
        return all_reduce.seconds(sharded_over(placement.devices), replicated_over(placement.devices), size_bytes)
