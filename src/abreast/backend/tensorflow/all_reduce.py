"""The time that TensorFlow takes to sum a buffer over devices while nothing else runs. The doctor compares it with a step."""

from __future__ import annotations

import statistics
import time

import tensorflow as tf

from abreast.backend.tensorflow.reduce import Reducer

_FLOAT_BYTES = 4
_TIMES = 7


def seconds(devices: tuple[str, ...], size_bytes: int) -> float:
    """Median duration of one sum, made like a sum of gradients in a step; `devices` are TensorFlow's names."""
    values = []
    for device in devices:
        with tf.device(device):
            values.append(tf.ones([max(1, size_bytes // _FLOAT_BYTES)]))
    reducer = Reducer(devices)

    def add(*shares: tf.Tensor) -> list[tf.Tensor]:
        # One number of each sum, because returning whole sums would copy them once more.
        return [total[0] for total in reducer.sum(list(shares))]

    program = tf.function(add, autograph=False)
    times = []
    for _ in range(_TIMES + 1):
        start = time.perf_counter()
        for number in program(*values):
            number.numpy()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
