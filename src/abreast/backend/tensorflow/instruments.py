"""Instruments of TensorFlow: times of devices, the profiler, the random generator, all-reduce timed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np
import tensorflow as tf
from keras import tree
from tensorflow.python.eager import context

from abreast.backend.contract import Placement
from abreast.backend.instruments import DeviceTimes, Tracer
from abreast.backend.tensorflow import all_reduce
from abreast.backend.tensorflow.build import build
from abreast.backend.tensorflow.devices import computes_on_gpus, device_names, tf_names
from abreast.backend.tensorflow.trace import TensorFlowTracer
from abreast.feed import HostBatch


class TensorFlowInstruments:
    """See `backend/instruments.py`. `rest` adds up what the replicas of a model have accumulated."""

    def __init__(self, rest: Callable[[Any], None]) -> None:
        self._rest = rest

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        if placement is None:
            return DeviceTimes((device_names()[0],), all_reduce=True)
        if placement.num_devices == 1:
            return DeviceTimes(placement.devices, all_reduce=True)
        notes = "TensorFlow runs one graph on all devices: all-reduce and the single devices are not told apart"
        return DeviceTimes(placement.devices, False, (notes,))

    def mark(self, outputs: Any) -> tf.Tensor | None:
        if not computes_on_gpus():
            return None  # a graph on the CPU has ended when its call returns
        return next((leaf for leaf in tree.flatten(outputs) if tf.is_tensor(leaf)), None)

    def finished(self, mark: tf.Tensor) -> tuple[int, ...]:
        np.asarray(mark)
        return (perf_counter_ns(),)

    def trace(self, logdir: str) -> Tracer:
        return TensorFlowTracer(logdir)

    def random_state(self, model: Any) -> tuple[Any, ...] | None:
        # Where operations without a seed of their own get one: among them the shuffling of a dataset.
        generator = getattr(context.context(), "_rng", None)
        state: tuple[Any, ...] | None = None if generator is None else generator.getstate()
        return state

    def set_random_state(self, state: tuple[Any, ...] | None, model: Any) -> None:
        if state is not None:
            context.context()._rng.setstate(state)
            context.context().clear_kernel_cache()  # a kernel that has drawn with a seed draws on with the same seed

    def keep_buffers(self, model: Any) -> None:
        return None

    def rest(self, model: Any) -> None:
        self._rest(model)

    def build(self, model: Any, first_batch: Callable[[], HostBatch]) -> None:
        build("train", model, first_batch())

    def read_buffers(self, model: Any) -> dict[str, Any]:
        return {}

    def write_buffers(self, model: Any, values: Mapping[str, Any]) -> None:
        pass

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return all_reduce.seconds(tf_names(placement.devices), size_bytes)
