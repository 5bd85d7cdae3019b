"""In a worker: a `TrialClock` driven by calls in Keras's order, on a clock that only moves when something takes time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

from abreast.doctor import clock as module

STEP, BETWEEN = 0.01, 0.5  # seconds


def drive(per_call: int, steps: int, wanted: int, known: bool = True, warmup: int = 3) -> dict[str, Any]:
    """Epochs of `steps` steps until the clock ends the fit; `known`: whether Keras knows their length."""
    now = 0.0
    model: Any = SimpleNamespace(steps_per_execution=per_call, stop_training=False)
    with mock.patch("time.perf_counter", lambda: now):  # noqa: PT008 - it moves
        clock = module.TrialClock(model, warmup, wanted)
        clock.set_model(model)
        clock.set_params({"steps": steps if known else None})
        done = 0
        while not model.stop_training:
            clock.on_epoch_begin(0)
            for begin in range(0, steps, per_call):
                clock.on_train_batch_begin(begin)
                now += STEP * min(per_call, steps - begin)
                done += 1
                if done == 2:
                    model.stop_training = True  # as another callback would end the training
                clock.on_train_batch_end(begin + per_call - 1)
                if model.stop_training:
                    break
            else:
                if not known:
                    clock.on_train_batch_begin(steps)  # of a batch that the source does not have
                clock.on_epoch_end(0)
                now += BETWEEN
    return {"seconds_per_step": clock.seconds_per_step, "between_epochs": clock.between_epochs, "calls": done}
