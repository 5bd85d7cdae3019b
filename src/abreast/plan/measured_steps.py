"""Measurements of the planned training, from the JSON lines of `abreast bench`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from abreast.bench.run import measurements
from abreast.bench.series import Comparison, Point, Series, comparisons
from abreast.errors import DataError
from abreast.plan.models import Model, same_model

_MOST_TITLES = 5
_BYTES_PER_PARAMETER = 4  # Keras keeps variables in float32 in every precision


def measured_steps(path: str, model: str | None, rows: float | None, strong: bool) -> Comparison:
    """The only matching set of measurements in the file. `None` matches any model or rows. Raises `DataError`."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path} of measurements", "`abreast bench` writes one")
    found = [_of_abreast_first(each) for each in comparisons(measurements(Path(path)))]
    fitting = [each for each in found if _fits(each, model, rows, strong)]
    if len(fitting) == 1:
        return fitting[0]
    there = "; ".join(each.title for each in (fitting or found)[:_MOST_TITLES])
    if fitting:
        hint = f"choose one with --model and --batch, or keep it in its own file: {there}"
        raise DataError(f"{len(fitting)} sets of measurements in {path} fit", hint)
    what = f"{model or 'any model'}, {'any rows' if rows is None else f'{rows:g} rows'} {'in all' if strong else 'per device'}"
    hint = f"there are {there}" if found else "measure first: abreast bench mlp"
    raise DataError(f"{path} has no measurement of {what}", hint)


def rows_of(comparison: Comparison) -> float:
    """Rows per device, or rows of the batch that the devices share."""
    facts = comparison.facts
    return float(facts["rows"] if facts["scaling"] == "strong" else facts["rows_per_device"])


def with_measured_shape(model: Model | None, comparison: Comparison) -> Model | None:
    """The model with the measured gradient tensors; unchanged if the lines do not contain them."""
    line = main_series(comparison).points[0].line or {}
    tensors = line.get("gradient_tensor_bytes")
    if not isinstance(tensors, list) or not tensors or not all(isinstance(size, int) and size > 0 for size in tensors):
        return model
    # bench lists them in the order of the backward pass.
    sizes = tuple(size // _BYTES_PER_PARAMETER for size in reversed(tensors))
    shape = {"num_parameters": float(sum(sizes)), "num_tensors": len(sizes), "tensor_sizes": sizes}
    if model is not None:
        return replace(model, **shape)  # type: ignore[arg-type]
    return Model(str(comparison.facts["model"]), **shape, source="abreast bench")  # type: ignore[arg-type]


def main_series(comparison: Comparison) -> Series:
    """The series of abreast, or of the first side if abreast was not measured."""
    return comparison.series[0]


def at(comparison: Comparison | None, num_devices: int) -> Point | None:
    if comparison is None:
        return None
    return next((point for point in main_series(comparison).points if point.devices == num_devices), None)


def _of_abreast_first(comparison: Comparison) -> Comparison:
    series = sorted(comparison.series, key=lambda each: each.side != "abreast")
    return replace(comparison, series=tuple(series))


def _fits(comparison: Comparison, model: str | None, rows: float | None, strong: bool) -> bool:
    facts = comparison.facts
    same = model is None or same_model(str(facts["model"]), model)
    return same and (facts["scaling"] == "strong") == strong and rows in (None, rows_of(comparison))
