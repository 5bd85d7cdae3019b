"""The process of one cell: its sides take turns on the same devices; their times go to the process that started this one.

`python -m abreast.bench.cell CELL`, with a cell as JSON. Each line on stdout is a JSON object: `{"doing": ...}` for progress,
and at the end `{"result": ...}` or `{"error": ...}`. The output of frameworks goes to stderr. The process ends when its stdin
ends. Frameworks are imported after the first message.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from abreast.bench.cases import Cell
from abreast.errors import AbreastError

_TURN_SECONDS = 0.5
_LEAST_STEPS = 3
_TRIED_STEPS = 3
Tell = Callable[[str], None]


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path.insert(0, os.getcwd())  # for `module:function`

    def send(**message: Any) -> None:
        out.write(json.dumps(message) + "\n")

    cell = Cell.from_json(sys.argv[1])
    sys.argv = ["abreast"]  # a module of the user may parse arguments when it is imported
    try:
        send(result=measure(cell, lambda text: send(doing=text)))
    except AbreastError as error:
        send(error=error.message, hint=error.hint)


def measure(cell: Cell, tell: Tell) -> dict[str, Any]:
    """Seconds per step of each side, one sample per round; reasons of failed sides; and the parts of abreast's step."""
    tell("starting")
    import abreast

    if cell.case.simulated:
        abreast.use_cpu_devices(cell.case.devices)
    from abreast.bench import inputs, sides

    most = cell.steps or inputs.MOST_STEPS
    task, fed = inputs.task_and_input(cell.case, cell.warm_up + most + 1)
    turns = _Turns(cell, tell)
    try:
        for name in cell.sides:
            turns.add(name, lambda name=name: sides.make(name, cell.case, task, fed))  # type: ignore[misc]
        steps = turns.settle_steps(most)
        turns.take(steps)
        facts = _facts(turns.model)
        if "abreast" in turns.samples:
            with _noted(turns.failed, "timeline"):  # the samples are kept
                step = statistics.median(turns.samples["abreast"])
                facts |= _parts(turns.model, fed, cell.warm_up, steps, step)
    finally:
        turns.close()
    return {"samples": turns.samples, "failed": turns.failed, "steps": steps, "source": fed.kind, **facts}


class _Turns:
    """Sides that take turns. A side that raises takes no further turns."""

    def __init__(self, cell: Cell, tell: Tell) -> None:
        self.samples: dict[str, list[float]] = {}
        self.failed: dict[str, str] = {}
        self._cell, self._tell = cell, tell
        self._sides: dict[str, Any] = {}
        self._tried: dict[str, float] = {}

    @property
    def model(self) -> Any:
        side = self._sides.get("abreast")
        return None if side is None else side.model

    def add(self, name: str, make: Callable[[], Any]) -> None:
        """Make a side and compile it."""
        self._tell(f"compiling {name}")
        with _noted(self.failed, name):
            self._sides[name] = make()
            self._sides[name].run(self._cell.warm_up, 1)
            self._tried[name] = self._sides[name].run(self._cell.warm_up, _TRIED_STEPS)

    def settle_steps(self, most: int) -> int:
        """The number of steps in a turn: the steps that the first side makes in half a second."""
        if self._cell.steps is not None:
            return self._cell.steps
        seconds = next((self._tried[name] for name in self._sides if name not in self.failed), 1.0)
        return max(_LEAST_STEPS, min(most, math.ceil(_TURN_SECONDS / max(seconds, 1e-6))))

    def take(self, steps: int) -> None:
        for round_ in range(self._cell.rounds):
            names = [name for name in self._sides if name not in self.failed]
            start = round_ % max(1, len(names))
            for name in names[start:] + names[:start]:  # so that no side always follows the same other
                self._tell(f"round {round_ + 1} of {self._cell.rounds}, {name}")
                with _noted(self.failed, name):
                    self.samples.setdefault(name, []).append(self._sides[name].run(self._cell.warm_up, steps))
        self.samples = {name: samples for name, samples in self.samples.items() if name not in self.failed}

    def close(self) -> None:
        for side in self._sides.values():
            side.close()


@contextlib.contextmanager
def _noted(failed: dict[str, str], name: str) -> Iterator[None]:
    """Record an exception as the reason why a side failed, and continue after the block."""
    try:
        yield
    except Exception as error:
        text = error.message if isinstance(error, AbreastError) else f"{type(error).__name__}: {error}"
        failed[name] = next(iter(text.strip().splitlines()), "")[:500]


def _facts(model: Any) -> dict[str, Any]:
    """The facts of a model that a prediction needs: its parameters, and its trained tensors in backward order."""
    if model is None:
        return {}
    from abreast.gradient_bytes import gradient_bytes

    tensors = [gradient_bytes([variable]) for variable in reversed(model.trainable_variables)]
    return {"num_parameters": int(model.count_params()), "gradient_tensor_bytes": tensors}


def _parts(model: Any, fed: Any, warm_up: int, steps: int, step_seconds: float) -> dict[str, Any]:
    """The parts of a step of this length, in the shares that a timeline over one more turn finds."""
    import abreast
    from abreast.bench.sides import fit

    timeline = abreast.Timeline(sample_seconds=None)
    fit(model, fed, warm_up, steps, (timeline,))
    summary = timeline.summary(warm_up_steps=warm_up)
    parts = {name: part["share"] * step_seconds for name, part in summary["parts"].items() if part is not None}
    return {"step_parts_seconds": parts, "all_reduce_told": summary["all_reduce_told"]}


def _end_with_parent() -> None:
    """Wait until stdin ends, which means that no process waits for the result; then end this process and its children."""
    while os.read(0, 1):  # not `sys.stdin`, whose lock this thread would hold when Python ends
        pass
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
