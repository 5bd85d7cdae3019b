"""The rival on TensorFlow: the custom training loop of TensorFlow's guide, `strategy.run` in a `tf.function`.

It feeds a distributed `tf.data` pipeline of batches with prefetching, and computes no metrics. It uses TensorFlow directly, since
a rival must not run on our backend.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from abreast.bench.task import Task


class Native:
    def __init__(self, task: Task, num_devices: int, data: tuple[Any, Any]) -> None:
        strategy = _strategy(num_devices)
        with strategy.scope():
            model, optimizer, loss = task.build(), task.optimizer(), task.loss("none")
            optimizer.build(model.trainable_variables)

        def replica_step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(loss(y, model(x, training=True))) / task.batch_size
            gradients = tape.gradient(value, model.trainable_variables)
            # Keras sums the gradients of all replicas here.
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return value

        @tf.function  # type: ignore[untyped-decorator]
        def step(x: Any, y: Any) -> Any:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (x, y)), axis=None)

        dataset = tf.data.Dataset.from_tensor_slices(data).batch(task.batch_size, drop_remainder=True)
        dataset = dataset.repeat().prefetch(tf.data.AUTOTUNE)
        self.batches = iter(strategy.experimental_distribute_dataset(dataset))
        self.step = step

    def run(self, dropped: int, steps: int) -> float:
        """Seconds per step, after `dropped` steps."""
        for _ in range(dropped):
            self.step(*next(self.batches)).numpy()
        start = time.perf_counter()
        value: Any = None
        for _ in range(steps):
            value = self.step(*next(self.batches))
        value.numpy()
        return (time.perf_counter() - start) / steps

    def close(self) -> None:
        pass


def _strategy(num_devices: int) -> Any:
    kind = "GPU" if tf.config.get_visible_devices("GPU") else "CPU"
    return tf.distribute.MirroredStrategy([f"/{kind}:{index}" for index in range(num_devices)])


def wait_for(model: Any) -> None:
    """Wait for the last step: read the smallest variable that it trains, from its own device."""
    smallest = min(model.trainable_variables, key=lambda variable: math.prod(variable.shape))
    keras.ops.convert_to_numpy(smallest)


def plain_scope(num_devices: int) -> Callable[[], Any] | None:
    """Keras's own training on several devices: a function that returns a new context."""
    return contextlib.nullcontext if num_devices == 1 else _strategy(num_devices).scope
