"""The processes of `faults.py`. Each joins its job, trains, evaluates and predicts; the victim says when its moment has come.

The victim is the process with a `FAULT_MOMENT`. When it is there, it prints `at MOMENT`, and with `FAULT_WAITS` waits there for
a line, so that the fault hits it at exactly that point. `FAULT_ROUNDS` is how often all train. With `FAULT_NO_WATCH` nobody
watches: a control of the campaign, which must then find every draw wrong.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_STEP_SECONDS = 0.02
_BETWEEN_SECONDS = 0.3
_left = [os.environ.get("FAULT_MOMENT")]


def now(moment: str) -> None:
    """The victim is at this moment, if it is its own."""
    if _left != [moment]:
        return
    _left.clear()
    print(f"at {moment}", flush=True)
    if os.environ.get("FAULT_WAITS"):
        sys.stdin.readline()


def _mark(owner: Any, name: str, moment: str, *, after: bool = False) -> None:
    """Let calls of a function begin, or end, with a moment."""
    kept: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(kept)
    def marked(*arguments: Any, **named: Any) -> Any:
        if not after:
            now(moment)
        result = kept(*arguments, **named)
        if after:
            now(moment)
        return result

    setattr(owner, name, marked)


def _tell_when_it_meets(hosts: Any) -> None:
    meet = hosts.meet

    def told(*arguments: Any, **named: Any) -> Any:
        print(f"meets at {time.time()}", flush=True)
        return meet(*arguments, **named)

    hosts.meet = told


def _mark_joining() -> None:
    from abreast import hosts
    from abreast.hosts import handshake, watch
    from abreast.hosts.meeting import Meeting

    _mark(hosts, "meet", "before the meeting")
    _tell_when_it_meets(hosts)
    _mark(handshake, "answer" if os.environ["RANK"] == "0" else "proof", "handshake")
    _mark(Meeting, "exchange", "after the meeting")
    _mark(watch.Watch, "begin", "joining the framework", after=True)
    _mark(watch.Watch, "leave", "leaving", after=True)
    if os.environ.get("FAULT_NO_WATCH"):
        watch.Watch.begin = lambda self: now("joining the framework")  # type: ignore[method-assign]


def main() -> None:
    _mark_joining()
    import abreast

    abreast.use_cpu_devices(int(os.environ["FAULT_DEVICES"]))
    scope = abreast.DataParallel()
    import keras
    import numpy as np

    class Moments(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            now("compiling")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 3:
                now("in steps")
            time.sleep(_STEP_SECONDS)

        def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                now("in validation")

    with scope:
        layers = [keras.layers.Dense(16, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
    for _ in range(int(os.environ["FAULT_ROUNDS"])):
        validation = (x[:48], x[:48, :1])
        model.fit(
            x, x[:, :1], 8, 2, validation_data=validation, validation_batch_size=8, verbose=0, callbacks=[Moments()]
        )
        model.predict(x, verbose=0)
        now("between calls")
        time.sleep(_BETWEEN_SECONDS)
    now("at the end")


if __name__ == "__main__":
    main()
