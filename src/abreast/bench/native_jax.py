"""The rival on JAX: a loop as written by hand, with a jitted step over a mesh, sharded rows and replicated variables.

It feeds slices of host arrays, one `jax.device_put` per batch, and computes no metrics. It uses JAX directly, since a rival must
not run on our backend.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from abreast.bench.task import Task


class Native:
    def __init__(self, task: Task, num_devices: int, data: tuple[Any, Any]) -> None:
        mesh = Mesh(np.array(jax.devices()[:num_devices]), ("batch",))
        self.rows = NamedSharding(mesh, PartitionSpec("batch"))
        self.task, self.data = task, data
        self.num_batches = len(data[1]) // task.batch_size
        self.simulated = num_devices > 1 and jax.default_backend() == "cpu"
        model, optimizer, loss = task.build(), task.optimizer(), task.loss()
        optimizer.build(model.trainable_variables)

        def loss_of(trainable: Any, non_trainable: Any, x: Any, y: Any) -> Any:
            y_pred, non_trainable = model.stateless_call(trainable, non_trainable, x, training=True)
            return loss(y, y_pred), non_trainable

        def step(state: Any, x: Any, y: Any) -> Any:
            trainable, non_trainable, slots = state
            (value, non_trainable), gradients = jax.value_and_grad(loss_of, has_aux=True)(
                trainable, non_trainable, x, y
            )
            trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
            return value, (trainable, non_trainable, slots)

        variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
        self.state = jax.device_put(
            [[variable.value for variable in group] for group in variables], NamedSharding(mesh, PartitionSpec())
        )
        self.step = jax.jit(step, donate_argnums=0)

    def run(self, dropped: int, steps: int) -> float:
        """Seconds per step, after `dropped` steps."""
        value = None
        for batch in range(dropped):
            value = self._step(batch, value)
        jax.block_until_ready(self.state)
        start = time.perf_counter()
        for batch in range(dropped, dropped + steps):
            value = self._step(batch, value)
        jax.block_until_ready(self.state)
        return (time.perf_counter() - start) / steps

    def _step(self, batch: int, value_before: Any) -> Any:
        x, y = self.data
        first = batch % self.num_batches * self.task.batch_size
        rows = slice(first, first + self.task.batch_size)
        shards = jax.device_put((x[rows], y[rows]), self.rows)
        if self.simulated:  # otherwise XLA's CPU threads can wait for one another until XLA aborts
            jax.block_until_ready(value_before)
        value, self.state = self.step(self.state, *shards)
        return value

    def close(self) -> None:
        pass


def wait_for(model: Any) -> None:
    """Wait until the state of a running `fit` is computed. Keras keeps it outside the model during `fit`."""
    state = getattr(model, "_jax_state", None)
    jax.block_until_ready(keras.tree.flatten(state))  # Keras's own containers are opaque to JAX


def plain_scope(num_devices: int) -> Callable[[], Any] | None:
    """Keras's own training on several devices: a function that returns a new context."""
    if num_devices == 1:
        return contextlib.nullcontext
    distribution = keras.distribution.DataParallel(devices=keras.distribution.list_devices()[:num_devices])
    scope: Callable[[], Any] = distribution.scope
    return scope
