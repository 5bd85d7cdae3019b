"""Cost of code between steps: a step, a step with a callback on batches, and PyTorch's comparisons of Python state.

    python benchmarks/python_state.py [--backends torch] [--models mlp,convnet,resnet50] [--devices 2] [--steps N] [--rounds 5]

On PyTorch abreast compares Python state before the first step of an epoch, and around each step at which a callback of the user
acts on batches. The last two parts, a step with such a callback with and without these comparisons, differ by
their cost. On TensorFlow the other devices get the variables again after such a callback. Each model runs in a fresh
process, in which the comparisons and the kinds of step take turns. The comparisons find no change. The first turn is dropped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any
from unittest import mock

import cells
import lines

_CELL_SECONDS = 500
_LOOKS = 50
_STEPS = {"mlp": 50, "convnet": 20, "resnet50": 3}


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(measure(json.loads(arguments.cell))))
        return
    for backend, model in itertools.product(arguments.backends, arguments.models):
        cell = {"backend": backend, "model": model, "devices": arguments.devices}
        cell |= {"steps": arguments.steps, "rounds": arguments.rounds}
        environment = lines.STEADY_HEAP | {"KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""}
        samples = cells.in_a_process(__file__, cell, environment, _CELL_SECONDS)
        warm_up = "the first turn"
        lines.append(
            [
                lines.line("python_state", cell | {"part": name}, values, "seconds", warm_up=warm_up)
                for name, values in samples.items()
            ]
        )
        medians = {name: 1e6 * statistics.median(values) for name, values in samples.items()}
        print(backend, model, *(f"{name} {value:.0f} us" for name, value in medians.items()), sep="  ", file=sys.stderr)


def measure(cell: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of each part, one sample per round. Runs in the cell's own process."""
    import abreast

    abreast.use_cpu_devices(cell["devices"])
    parts = _parts(cell)
    for part in parts.values():
        part()
    return {name: [part() for _ in range(cell["rounds"])] for name, part in parts.items()}


def _parts(cell: dict[str, Any]) -> dict[str, Callable[[], float]]:
    import cases
    import keras

    import abreast

    case, steps = cases.case(cell["model"]), cell["steps"] or _STEPS[cell["model"]]
    x, y = case.data(steps)
    model = abreast.parallelize(case.compiled(), cell["devices"], batch_norm="local")
    acting = keras.callbacks.LambdaCallback(on_train_batch_end=_nothing)

    def fit(*callbacks: Any) -> float:
        start = perf_counter()
        model.fit(x, y, batch_size=case.batch_size, shuffle=False, verbose=0, callbacks=[*callbacks])
        return (perf_counter() - start) / steps

    fit()
    kinds = {"step": fit, "step with a callback on batches": lambda: fit(acting)}
    if cell["backend"] != "torch":
        return kinds
    return _looks(model) | kinds | {"the same, not looked at": lambda: _not_looked_at(lambda: fit(acting))}


def _not_looked_at(fit: Callable[[], float]) -> float:
    """Such a step without the comparisons: only Keras's own cost of a callback on batches remains."""
    from abreast.backend.torch.team import Team
    from abreast.backend.torch.team_model import TeamModel

    team_model = Team.team_model

    def as_it_is(team: Team, model: Any, size: int, global_batch_norm: bool, look: bool, **options: Any) -> TeamModel:
        return team_model(team, model, size, global_batch_norm, look=False, **options)

    with (
        mock.patch.object(Team, "team_model", as_it_is),
        mock.patch.object(Team, "accept_state", Team.collect_gradients),
    ):
        return fit()


def _looks(model: Any) -> dict[str, Callable[[], float]]:
    from abreast.backend.torch import settings
    from abreast.backend.torch.contents import Contents
    from abreast.backend.torch.memory import Memory
    from abreast.backend.torch.messages import identity, numbered_variables
    from abreast.backend.torch.python_state import PythonState

    state = PythonState(model)

    def look() -> float:
        state.skip()  # changes that the turns of `fit` left
        return _seconds(state.changes, _LOOKS)

    tensors = [variable.value for variable in numbered_variables(model)]
    return {
        "first look": lambda: _seconds(lambda: PythonState(model), 3),
        "look": look,
        "memory, twice a step": lambda: _seconds(lambda: Memory(tensors).written(tensors), _LOOKS),
        "contents, where somebody has the memory": lambda: _seconds(lambda: Contents(tensors), _LOOKS),
        "settings": lambda: _seconds(settings.read, _LOOKS),
        "identity": lambda: _seconds(lambda: identity(model), _LOOKS),
    }


def _nothing(batch: int, logs: Any) -> None:
    pass


def _seconds(call: Callable[[], Any], times: int) -> float:
    start = perf_counter()
    for _ in range(times):
        call()
    return (perf_counter() - start) / times


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=["torch"])
    parser.add_argument("--models", type=lambda text: text.split(","), default=["mlp", "convnet", "resnet50"])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of one turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
