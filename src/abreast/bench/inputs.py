"""The input of a benchmark's model: noise made on the host or the device, packed records, or a user's source."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np

from abreast.bench import front, models
from abreast.bench.cases import PRECISIONS, Case
from abreast.bench.task import Task
from abreast.errors import ModelError

MOST_STEPS = 200  # per turn, by default
_LEAST_STEPS = 20
_ARRAY_BYTES = 256 << 20
_VIEWS = 8  # of one buffer: a feed that gets the same batch again would copy it


@dataclass(frozen=True)
class Input:
    """`arguments` returns the arguments of one `fit`; `arrays` is for the native loops; `kind` names the source's kind."""

    arguments: Callable[[], dict[str, Any]]
    kind: str
    arrays: tuple[Any, Any] | None = None


def task_and_input(case: Case, steps: int) -> tuple[Task, Input]:
    """The task of a case and its input, for turns of at most `steps` steps. Raises `DataError` and `ModelError`."""
    if ":" in case.input:
        return Task(case.model, functools.partial(_made, case), (), case.rows), _source(case)
    task = synthetic_task(asdict(case))
    return task, _synthetic(task, steps) if case.input in ("host", "device") else _records(case, task)


def _made(case: Case) -> Any:
    """The model in its precision, after the layer that its input needs."""
    keras.config.set_dtype_policy(PRECISIONS[case.precision])
    model = models.build(case.model, case.input_shape, _classes(case))
    if case.input == "device":
        return front.on_device(model, _tokens(model))
    if case.input == "host" or ":" in case.input:
        return model
    return front.from_bytes(model)


def _classes(case: Case) -> int | None:
    """Number of classes of packed records; None: the model's own number."""
    if case.input in ("host", "device") or ":" in case.input:
        return None
    from abreast.records.reading.info import content

    names = content(case.input).get("class_names")
    return len(names) if names else None


def synthetic_task(facts: dict[str, Any]) -> Task:
    """The task of the case with these fields, with the shapes of its model. Raises `ModelError`."""
    case = Case.of(facts)
    keras.config.set_dtype_policy(PRECISIONS[case.precision])
    model = models.build(case.model, case.input_shape, _classes(case))
    hint = "feed it from a source of your own: --input module:function"
    inputs, outputs = getattr(model, "inputs", None) or [], getattr(model, "outputs", None) or []
    if len(inputs) != 1 or len(outputs) != 1:
        raise ModelError(
            f"{case.model} has {len(inputs)} known inputs and {len(outputs)} outputs, but noise needs one of each",
            hint,
        )
    shape, output = tuple(inputs[0].shape[1:]), tuple(outputs[0].shape[1:])
    if None in shape or None in output:
        raise ModelError(
            f"{case.model} takes rows of shape {shape} and returns {output}", f"give --input-shape, or {hint}"
        )
    values = bool(getattr(model, "compiled", False)) and "sparse" not in _name(model.loss)
    task_shape = (1,) if case.input == "device" else shape
    tokens = None if case.input == "device" else _tokens(model)
    targets = output if values else output[:-1]
    again = ("abreast.bench.inputs:synthetic_task", (facts,))
    make = functools.partial(_made, case)
    return Task(case.model, make, task_shape, case.rows, output[-1], tokens, targets, values, again)


def _tokens(model: Any) -> int | None:
    """The number of tokens that the model's embedding knows; None for a model that takes floats."""
    if not keras.backend.is_int_dtype(model.inputs[0].dtype):
        return None
    sizes = [layer.input_dim for layer in model._flatten_layers() if isinstance(layer, keras.layers.Embedding)]
    return min(sizes, default=2)


def _name(loss: Any) -> str:
    return str(loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)).lower()


def _synthetic(task: Task, steps: int) -> Input:
    """Arrays of whole batches if they fit into memory; else a generator of views of one buffer."""
    num_batches = min(steps, _ARRAY_BYTES // task.batch_bytes)
    if num_batches >= min(steps, _LEAST_STEPS):
        x, y = _noise(task, num_batches * task.batch_size)
        arguments = {"x": x, "y": y, "batch_size": task.batch_size, "shuffle": False}
        return Input(lambda: arguments, "arrays", (x, y))
    x, y = _noise(task, task.batch_size + _VIEWS - 1)

    def views() -> Iterator[Any]:
        while True:
            for first in range(_VIEWS):
                rows = slice(first, first + task.batch_size)
                yield x[rows], y[rows]

    return Input(lambda: {"x": views(), "steps_per_epoch": steps}, "generator", (x, y))


def _noise(task: Task, num_rows: int) -> tuple[Any, Any]:
    x, y = task.rows(num_rows)
    return (np.mod(x, 1.0).astype("float32"), y) if task.shape == (1,) else (x, y)


def _records(case: Case, task: Task) -> Input:
    from abreast import ImageRecords

    if len(task.shape) != 3:
        raise ModelError(f"{case.model} takes rows of shape {task.shape}, not images", "take a model of images")
    height, width, _ = task.shape
    records = ImageRecords(case.input, case.rows, size=(height, width), augment=True, drop_remainder=True)

    def epochs() -> Iterator[Any]:
        while True:
            yield from records

    return Input(lambda: {"x": epochs(), "steps_per_epoch": len(records)}, "generator")


def _source(case: Case) -> Input:
    make = models.function(case.input, "a source")

    def arguments() -> dict[str, Any]:
        found = make(case.rows)
        if isinstance(found, dict):
            return found
        if isinstance(found, tuple):
            names = ("x", "y", "sample_weight")
            return dict(zip(names, found, strict=False)) | {"batch_size": case.rows}
        return {"x": found}

    return Input(arguments, "source")
