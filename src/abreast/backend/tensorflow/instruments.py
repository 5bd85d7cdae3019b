"""Instruments of TensorFlow: times of devices, the profiler, the random generator, all-reduce timed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf
from keras import tree
from tensorflow.python.eager import context

from abreast import exact
from abreast.backend.contract import Placement
from abreast.backend.instruments import Defaults, DeviceTimes, Sums, Tracer
from abreast.backend.tensorflow import all_reduce
from abreast.backend.tensorflow.build import build, is_built
from abreast.backend.tensorflow.devices import computes_on_gpus, device_names, tf_names
from abreast.backend.tensorflow.trace import TensorFlowTracer
from abreast.backend.tensorflow.variables import Variables
from abreast.feed import HostBatch


class TensorFlowInstruments(Defaults):
    """See `backend/instruments.py`. `rest` adds up the sums that the replicas of a model have accumulated."""

    def __init__(self, rest: Callable[[Any], None], variables: Mapping[Any, Variables]) -> None:
        self._rest = rest
        self._variables = variables  # of each placed model
        # For each model not yet placed: (variable, parts of its sum, sum).
        self._due_sums: WeakKeyDictionary[Any, list[tuple[Any, np.ndarray, np.ndarray]]] = WeakKeyDictionary()

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        if placement is None:
            return DeviceTimes((device_names()[0],), all_reduce=True)
        if placement.num_devices == 1:
            return DeviceTimes(placement.devices, all_reduce=True)
        notes = (
            "TensorFlow runs one graph on all devices: all-reduce and the single devices cannot be measured separately"
        )
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
        # Source of seeds for operations without a seed of their own, such as the shuffling of a dataset.
        generator = getattr(context.context(), "_rng", None)
        state: tuple[Any, ...] | None = None if generator is None else generator.getstate()
        return state

    def set_random_state(self, state: tuple[Any, ...] | None, model: Any) -> None:
        if state is not None:
            context.context()._rng.setstate(state)
            context.context().clear_kernel_cache()  # a cached kernel would continue its own sequence for the same seed

    def keep_buffers(self, model: Any) -> None:
        return None

    def rest(self, model: Any) -> None:
        self._rest(model)

    def read_sums(self, model: Any) -> Sums:
        variables = self._variables.get(model)
        return self._valid_due_sums(model) or (() if variables is None else variables.read_sums())

    def write_sums(self, sums: Sums, model: Any) -> None:
        self._due_sums[model] = [(variable, parts, np.array(variable)) for variable, parts in sums]
        self.write_due_sums(model)

    def write_due_sums(self, model: Any) -> None:
        """Give the replicas the parts that `write_sums` got earlier, if the model's variables are placed by now."""
        variables, due = self._variables.get(model), self._valid_due_sums(model)
        if variables is not None and all(variables.has(variable) for variable, _ in due):
            self._due_sums.pop(model, None)
            variables.write_sums(due)

    def _valid_due_sums(self, model: Any) -> Sums:
        """The waiting parts of the variables whose value is still the sum; the end of an epoch resets metrics."""
        due = self._due_sums.get(model, ())
        return [(variable, parts) for variable, parts, total in due if np.array_equal(variable, total)]

    def rounds_anew(self, model: Any, placement: Placement, steps: int) -> str | None:
        job = placement.backend.job
        adds_up = steps or any(each.gradient_accumulation_steps for each in exact.optimizers(model))
        if job is None or job.size == 1 or not adds_up:
            return None
        return "sums of metrics and of accumulated gradients begin with one sum of all devices"

    def build(self, model: Any, first_batch: Callable[[], HostBatch]) -> None:
        if not is_built(model):
            build("train", model, first_batch())

    def view(self, variable: Any) -> np.ndarray:
        tensor = tf.convert_to_tensor(variable.value)  # an array made from the variable would be a copy
        return np.asarray(tensor.__array__())  # `__array__` returns a number for a scalar

    def read_buffers(self, model: Any) -> dict[str, Any]:
        return {}

    def write_buffers(self, model: Any, values: Mapping[str, Any]) -> None:
        pass

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return all_reduce.seconds(tf_names(placement.devices), size_bytes)
