"""One host's process of `plan_links.py`: trains a model on request, on one core, alone or with the other host.

    python benchmarks/slow_training.py CELL     (a JSON object; `plan_links.py` starts it in a namespace)

It prints the facts of the model. Then, for each line `accumulation dropped timed` on stdin, it prints the seconds of `timed`
updates, after `dropped` others. One more update follows, which is not timed and includes the end of an epoch. A launcher's
variables, which abreast reads, decide whether it trains alone. Imports Keras.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import keras
import numpy as np
from slow_links import end_with_parent

import abreast
from abreast.bench import models
from abreast.bench.task import Task

# The model's name in `abreast bench`, the shape of a row, the rows of one device, and the upper limit of its tokens.
MODELS: dict[str, tuple[str, tuple[int, ...], int, int | None]] = {
    "dense": ("mlp", (784,), 512, None),
    "conv": ("cifar10", (32, 32, 3), 64, None),
    "transformer": ("transformer", (128,), 8, 8192),
}


def main() -> None:
    end_with_parent()
    cell = json.loads(sys.argv[1])
    num_hosts = int(os.environ.get("WORLD_SIZE", "1"))
    if num_hosts > 1:
        abreast.DataParallel()  # joins the job before a model is made
    task = task_of(cell["model"], num_hosts)
    trained = {steps: _trained(task, steps, num_hosts) for steps in cell["accumulations"]}
    model = next(iter(trained.values()))
    print(json.dumps({"tensor_sizes": [int(np.prod(weight.shape)) for weight in model.trainable_weights]}), flush=True)
    for line in sys.stdin:
        accumulation, dropped, timed = (int(word) for word in line.split())
        steps = accumulation * (dropped + timed + 1)
        x, y = (np.resize(each, (steps * len(each), *each.shape[1:])) for each in task.rows(task.batch_size))
        clock = _Clock(accumulation)
        trained[accumulation].fit(x, y, batch_size=task.batch_size, shuffle=False, verbose=0, callbacks=[clock])
        print(json.dumps(np.diff(clock.times)[dropped:].tolist()), flush=True)


def task_of(name: str, num_hosts: int) -> Task:
    known, shape, rows, tokens = MODELS[name]
    return Task(name, lambda: models.build(known), shape, rows * num_hosts, tokens=tokens)


def _trained(task: Task, accumulation: int, num_hosts: int) -> Any:
    model = task.build()
    steps = accumulation if accumulation > 1 else None
    optimizer = keras.optimizers.SGD(0.001, momentum=0.9, gradient_accumulation_steps=steps)
    model.compile(optimizer, task.loss())
    return abreast.parallelize(model, 1) if num_hosts == 1 else abreast.parallelize(model)


class _Clock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """The begin of each update, which is the end of the update before. Only JAX computes while Python goes on."""

    def __init__(self, accumulation: int) -> None:
        super().__init__()
        self.times: list[float] = []
        self._accumulation = accumulation

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch % self._accumulation == 0:
            if keras.backend.backend() == "jax":
                from abreast.bench import native_jax

                native_jax.wait_for(self.model)
            self.times.append(time.perf_counter())


if __name__ == "__main__":
    main()
