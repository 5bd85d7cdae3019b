"""The data of a case: arrays from a seed, and every kind of source that hands them to `fit` in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from tests.contract.cases import Case
from tests.contract.pieces import LOSSES


@dataclass
class Arrays:
    """Inputs, targets and sample weights (or None) of all rows."""

    x: Any
    y: Any
    weight: Any

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.x, self.y) if self.weight is None else (self.x, self.y, self.weight)

    def between(self, first: int, last: int) -> tuple[Any, ...]:
        return tuple(keras.tree.map_structure(lambda array: array[first:last], part) for part in self.parts)


def arrays(case: Case, rows: int, seed: int = 11) -> Arrays:
    """The first `rows` rows that the seed draws."""
    random = np.random.default_rng(seed)
    made = (_inputs(case, rows, random), _targets(case, rows, random), _weights(case, rows, random))
    precision = keras.config.floatx()
    return Arrays(*(keras.tree.map_structure(lambda array: _in_precision(array, precision), part) for part in made))


def _in_precision(array: Any, precision: str) -> Any:
    return array.astype(precision) if array is not None and array.dtype.kind == "f" else array


def _inputs(case: Case, rows: int, random: np.random.Generator) -> Any:
    if case.model == "multi":
        return {"a": random.normal(size=(rows, 5)), "b": random.normal(size=(rows, 3))}
    if case.model in ("lstm_mask", "sequence_mask"):
        tokens = random.integers(1, 6, size=(rows, 4))
        lengths = random.integers(1, 5, size=(rows, 1))
        return np.where(np.arange(4) < lengths, tokens, 0).astype("int32")
    shape = {"conv_norm": (5, 5, 1), "attention": (3, 4), "ctc": (6, 2)}.get(case.model, (5,))
    return random.normal(size=(rows, *shape)) * random.uniform(0.2, 2, size=(rows, *[1] * len(shape)))


def _targets(case: Case, rows: int, random: np.random.Generator) -> Any:
    steps = (4,) if case.model == "sequence_mask" else ()
    classes = random.integers(0, 3, size=(rows, *steps)).astype("int32")
    target: Any = {
        "classes": classes,
        "embedding": classes,
        "labels": random.integers(1, 4, size=(rows, 2)).astype("int32"),
        "onehot": np.eye(3)[classes],
        "binary": (classes[..., None] > 0).astype("float64"),
        "values": random.normal(size=(rows, *steps, 2)),
        "positive": random.uniform(0.5, 2, size=(rows, *steps, 2)),
    }[LOSSES[case.loss].target]
    return {"label": target, "value": random.normal(size=(rows, 2))} if case.model == "multi" else target


def _weights(case: Case, rows: int, random: np.random.Generator) -> Any:
    if not case.sample_weight:
        return None
    weights = random.uniform(0.1, 3, size=rows)
    if case.sample_weight == "zeros in front":
        weights[np.arange(rows) % case.batch_size < case.batch_size // 2] = 0.0
    if case.sample_weight == "all zero in one batch":
        weights[: case.batch_size] = 0.0
    if case.sample_weight == "by step":
        return random.uniform(0.1, 3, size=(rows, 4))
    if case.model == "multi":
        return {"label": weights, "value": random.uniform(0.1, 3, size=rows)}
    return weights


def fit_arguments(case: Case, data: Arrays) -> dict[str, Any]:
    """The arguments of `fit` for the source, validation and weights of a case."""
    arguments: dict[str, Any] = {
        "epochs": case.epochs,
        "verbose": 0,
        "shuffle": case.shuffle,
        **SOURCES[case.source](case, data),
    }
    if case.class_weight:
        arguments["class_weight"] = {0: 0.3, 1: 2.0, 2: 1.1}
    if case.validation == "split":
        arguments["validation_split"] = 0.4
    elif case.validation:
        held_out = arrays(case, case.batch_size + 3, seed=23)
        arguments["validation_data"] = held_out.parts
        arguments["validation_batch_size"] = case.batch_size
    if case.validation == "dataset":
        arguments["validation_data"] = _tf_data(case, held_out)["x"]
        del arguments["validation_batch_size"]
    return arguments


def _batches(case: Case, data: Arrays) -> Iterator[tuple[Any, ...]]:
    for first in range(0, case.rows, case.batch_size):
        yield data.between(first, min(first + case.batch_size, case.rows))


def _arrays(case: Case, data: Arrays) -> dict[str, Any]:
    return {"x": data.x, "y": data.y, "sample_weight": data.weight, "batch_size": case.batch_size}


def _tensors(case: Case, data: Arrays) -> dict[str, Any]:
    tensors = {
        name: keras.tree.map_structure(keras.ops.convert_to_tensor, part)
        for name, part in zip(("x", "y", "sample_weight"), data.parts, strict=False)
    }
    return {**tensors, "batch_size": case.batch_size}


def _tf_data(case: Case, data: Arrays) -> dict[str, Any]:
    import tensorflow as tf

    return {"x": tf.data.Dataset.from_tensor_slices(data.parts).batch(case.batch_size).prefetch(1)}


def _py_dataset(case: Case, data: Arrays) -> dict[str, Any]:
    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return -(-case.rows // case.batch_size)

        def __getitem__(self, index: int) -> Any:
            return data.between(index * case.batch_size, min((index + 1) * case.batch_size, case.rows))

    return {"x": Rows(workers=2, max_queue_size=3)}


def _torch_loader(case: Case, data: Arrays) -> dict[str, Any]:
    import torch

    dataset = torch.utils.data.TensorDataset(*(torch.as_tensor(part) for part in data.parts))
    return {"x": torch.utils.data.DataLoader(dataset, batch_size=case.batch_size)}


def _grain(case: Case, data: Arrays) -> dict[str, Any]:
    import grain

    rows = grain.MapDataset.source(range(case.rows)).map(
        lambda index: tuple(keras.tree.map_structure(lambda array: array[index], part) for part in data.parts)
    )
    return {"x": rows.batch(case.batch_size)}


def _generator(case: Case, data: Arrays) -> dict[str, Any]:
    """Finite: one epoch of it."""
    return {"x": _batches(case, data), "epochs": 1}


def _endless(case: Case, data: Arrays) -> dict[str, Any]:
    def forever() -> Iterator[Any]:
        while True:
            yield from _batches(case, data)

    return {"x": forever(), "steps_per_epoch": 3}


def _endless_dataset(case: Case, data: Arrays) -> dict[str, Any]:
    return {"x": _tf_data(case, data)["x"].repeat(), "steps_per_epoch": 3}


SOURCES: dict[str, Callable[[Case, Arrays], dict[str, Any]]] = {
    "arrays": _arrays,
    "endless": _endless,
    "endless_dataset": _endless_dataset,
    "generator": _generator,
    "grain": _grain,
    "py_dataset": _py_dataset,
    "tensors": _tensors,
    "tf_data": _tf_data,
    "torch_loader": _torch_loader,
}
