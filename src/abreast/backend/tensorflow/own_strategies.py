"""Strategies of `tf.distribute` that place nothing: they replace a script's own strategies, and abreast places its models.

A `TakenOver` is an instance of the class that the script named, so `isinstance` holds. Its scopes, data sets and number of
replicas are those of abreast. Loops that call `run` are refused. Not here: the names that are replaced (`strategies.py`). Imports
TensorFlow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import tensorflow as tf

from abreast.backend.tensorflow.functions import in_a_step
from abreast.errors import DataError, ModelError
from abreast.taken_over import take_over

_PLAIN = tf.distribute.get_strategy()  # TensorFlow's default: one device
_entered = threading.local()


def around() -> Any:
    """The strategy whose scope this thread is in; None outside."""
    return next(reversed(_scopes()), None)


def enter(strategy: Any) -> None:
    """Enter a strategy's scope."""
    _scopes().append(strategy)


def leave_all() -> None:
    _scopes().clear()


def _scopes() -> list[Any]:
    if not hasattr(_entered, "stack"):
        _entered.stack = []
    stack: list[Any] = _entered.stack
    return stack


class TakenOver(tf.distribute.Strategy):  # type: ignore[misc]  # TensorFlow has no types
    """A strategy with abreast's `num_devices` replicas, unless a subclass has another number."""

    num_devices: ClassVar[int]
    title: ClassVar[str]

    def __init__(self, devices: Any = None) -> None:
        tf.distribute.Strategy.__init__(self, _PLAIN.extended)
        for device in [devices] if isinstance(devices, str) else devices or ():
            _check_here(self.title, device)
        replicas = f"num_replicas_in_sync is {self._num_replicas}"
        take_over(self.title, f"its scope places nothing, {replicas}, and a batch is that of all devices")

    @property
    def _num_replicas(self) -> int:
        return self.num_devices

    @property
    def num_replicas_in_sync(self) -> int:
        if in_a_step():
            raise ModelError(
                f"a step reads num_replicas_in_sync of a {self.title}, which abreast takes over: TensorFlow adds the "
                "replicas' gradients up, and abreast takes their mean",
                "do not divide the loss by it (the loss is a mean over the global batch); for anything else, such as a "
                "learning rate, read the number before training",
            )
        return self._num_replicas

    @contextmanager
    def scope(self) -> Iterator[Any]:
        _scopes().append(self)
        try:
            yield self
        finally:
            _scopes().remove(self)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        return dataset

    def distribute_datasets_from_function(self, dataset_fn: Callable[[Any], Any], options: Any = None) -> Any:
        context = tf.distribute.InputContext(1, 0, self._num_replicas)
        return joined(dataset_fn(context), self._num_replicas)

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        raise self._own_loop("run")

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        raise self._own_loop("reduce")

    def gather(self, *args: Any, **kwargs: Any) -> Any:
        raise self._own_loop("gather")

    def experimental_distribute_values_from_function(self, *args: Any, **kwargs: Any) -> Any:
        raise self._own_loop("experimental_distribute_values_from_function")

    def _own_loop(self, method: str) -> ModelError:
        return ModelError(
            f"the script calls {method} of a {self.title}: abreast trains models through fit, evaluate, predict and their "
            "siblings, not in a loop with strategy.run",
            "put the step into `def train_step(self, data)` of a keras.Model and call model.fit, or call "
            "model.train_on_batch in the loop; remove strategy.run, reduce and gather",
        )


class MirroredStrategy(TakenOver, tf.distribute.MirroredStrategy):  # type: ignore[misc]
    title = "tf.distribute.MirroredStrategy"

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        TakenOver.__init__(self, devices)


class OneDeviceStrategy(TakenOver, tf.distribute.OneDeviceStrategy):  # type: ignore[misc]
    """One replica, as the script asks: its batches and learning rates stay unchanged."""

    title = "tf.distribute.OneDeviceStrategy"

    def __init__(self, device: Any) -> None:
        TakenOver.__init__(self, device)

    @property
    def _num_replicas(self) -> int:
        return 1


def joined(dataset: Any, count: int) -> Any:
    """The global batches of a data set of replicas' batches: each joins the rows of the next `count` batches, in order."""
    if count == 1:
        return dataset
    specs = dataset.element_spec
    for spec in tf.nest.flatten(specs):
        _check_joins(spec)

    def rows(*batches: Any) -> Any:
        return tf.nest.map_structure(_rows, batches if type(specs) is tuple else batches[0])  # as tf.data passes it

    return dataset.ragged_batch(count).map(rows)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _rows(batches: Any) -> Any:
    if isinstance(batches, tf.RaggedTensor):
        return batches.values
    return tf.reshape(batches, [-1, *batches.shape[2:]])


def _check_joins(spec: Any) -> None:
    shape = spec.shape if isinstance(spec, tf.TensorSpec) else None
    if shape is None or shape.rank is None or None in tuple(shape)[1:]:
        raise DataError(
            f"distribute_datasets_from_function gives batches of {spec}, which abreast cannot join to a global batch",
            "call the function yourself for the global batch: dataset = dataset_fn(tf.distribute.InputContext())",
        )


def _check_here(title: str, device: Any) -> None:
    spec = tf.DeviceSpec.from_string(str(device))
    if spec.job not in (None, "localhost") or spec.task not in (None, 0):
        raise ModelError(
            f"{title} names {device}, a device of another host",
            "leave the devices out: a process takes those of its host, and a launcher starts the processes",
        )
