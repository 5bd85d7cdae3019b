"""Weights and results of a few rows in short: by these, replicas in processes of their own find out whether they are alike.

A replica computes otherwise if its process has other Python or C state, or other weights. The rows are run as in the row check,
without a trace. Imports no framework.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from abreast.exact.calls import THE_STEP, FullRun, as_array
from abreast.exact.dry_run import dry_run
from abreast.exact.global_draws import drew
from abreast.exact.install import install
from abreast.exact.members import name_of
from abreast.exact.own_step import call_in_step, overrides_step
from abreast.exact.probe import Probe
from abreast.exact.row_check import keeps_rows_in_python
from abreast.exact.warn_once import warn_once

_MOST_NUMBERS = 4096  # of a tensor that are looked at one by one
_TOLERANCE, _TOLERANCE_OF_HALF = 1e-4, 2e-2  # of the size of a result
_TOLERANCE_OF_WEIGHTS = 1e-6


class Short(NamedTuple):
    """A tensor in short: the sum of its absolute values; for some of its numbers, that sum and one with signs and factors.

    `infinite`: how many of these are infinite or NaN, and left out of their sums.
    """

    name: str
    total: float
    part: float
    weighted: float
    infinite: int
    tolerance: float


@dataclass(frozen=True)
class ShortResults:
    """The weights and results of a replica. `draws`: whether it draws numbers of its own; `error`: the class of a failure."""

    weights: list[Short]
    results: list[Short]
    draws: bool
    error: str = ""

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of_json(text: str) -> ShortResults:
        content = json.loads(text)
        weights, results = ([Short(*each) for each in content[name]] for name in ("weights", "results"))
        return ShortResults(weights, results, content["draws"], content["error"])


def short_results(model: Any, kind: str, rows: Any, probe: Probe) -> ShortResults:
    """The weights of a model, and its results for some rows, given to every replica alike, in a step of kind `kind`.

    The rows may be written to.
    """
    install()
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.weights, *(optimizer.variables if optimizer is not None else [])]
    weights = _in_short(((variable.path, variable.value) for variable in variables), _TOLERANCE_OF_WEIGHTS)
    run, error = FullRun(model, [], {}), ""
    with dry_run(model) as snapshot, probe.unchanged():
        try:
            run.run(_step(kind, model), rows)
        except Exception as failure:
            error = type(failure).__name__
        draws = drew() or probe.drew() or snapshot.drew()
    return ShortResults(weights, _in_short(_results(run, kind, model), max(_TOLERANCE, probe.noise)), draws, error)


def announce_unlike(
    model: Any, found: Sequence[ShortResults], names: Sequence[str], again: Callable[[], ShortResults]
) -> None:
    """Warn, once per model, if a replica has other weights than the first one, or computes otherwise from the same rows.

    `again` computes the results of the first replica once more: code that draws fresh numbers differs from itself.
    """
    first, *others = found
    for result, name in zip(others, names[1:], strict=True):
        if what := _difference(first, result, with_results=not keeps_rows_in_python(model)):
            if not _difference(first, again()):
                warn_once(
                    model,
                    "unlike replicas",
                    f"{name} does not compute what the first device computes: {what}. Its process has state that abreast does "
                    "not see, such as a setting of a package or memory of C code, or code has written to weights unnoticed. "
                    "Training goes on, and its result is not that of one device",
                )
            return


def _difference(first: ShortResults, other: ShortResults, with_results: bool = True) -> str:
    if first.error != other.error:
        return f"its run of the same rows ended with {other.error or 'no error'}, and there with {first.error or 'no error'}"
    for one, two in zip(first.weights, other.weights, strict=False):
        if _are_unlike(one, two):
            return f"{one.name} has other values"
    if first.draws or other.draws or not with_results:
        return ""
    for one, two in zip(first.results, other.results, strict=False):
        if one.name != two.name or _are_unlike(one, two):
            return f"{one.name} has another result from the same rows"
    return "" if len(first.results) == len(other.results) else "it calls other layers"


def _are_unlike(one: Short, other: Short) -> bool:
    # With other numbers of threads, the sum of all is rounded otherwise; those of some are in float64.
    pairs = zip(one[1:4], other[1:4], (10 * one.total, one.part, one.part), strict=True)
    return one.infinite != other.infinite or any(abs(a - b) > one.tolerance * size + 1e-30 for a, b, size in pairs)


def _step(kind: str, model: Any) -> Callable[[Any], Any]:
    if overrides_step(model, kind):
        return getattr(model, f"{kind}_step")  # type: ignore[no-any-return]
    call = call_in_step(kind, model)

    def step(data: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = call(x)
        if kind == "predict":
            return y_pred
        return model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=kind == "train")

    return step


def _results(run: FullRun, kind: str, model: Any) -> Iterable[tuple[str, Any]]:
    """The results of a run. Without those that a user's own step returns: replicas have other results of metrics."""
    is_own = overrides_step(model, kind)
    for place, tensor in run.tensors.items():
        if place.side == "out" and not (is_own and place.number == THE_STEP):
            yield "the loss" if place.number == THE_STEP else name_of(run.members[place.number]), tensor
    for gradients in run.gradients:
        yield from (("the gradient", ops.convert_to_tensor(each)) for each in gradients if each is not None)


def _in_short(tensors: Iterable[tuple[str, Any]], tolerance: float) -> list[Short]:
    found = []
    for name, tensor in tensors:
        is_half = str(tensor.dtype).endswith("float16") and tolerance != _TOLERANCE_OF_WEIGHTS
        with suppress(Exception):  # a sparse tensor, for example
            found.append(_short(name, tensor, _TOLERANCE_OF_HALF if is_half else tolerance))
    return found


def _short(name: str, tensor: Any, tolerance: float) -> Short:
    if "complex" in str(tensor.dtype):
        tensor = ops.stack([ops.real(tensor), ops.imag(tensor)])
    flat = ops.reshape(ops.cast(ops.stop_gradient(tensor), "float32"), (-1,))
    part = as_array(flat[:: 1 + int(flat.shape[0]) // _MOST_NUMBERS]).astype(np.float64)
    is_finite = np.isfinite(part)
    finite = np.where(is_finite, part, 0.0)
    total = float(as_array(ops.sum(ops.abs(flat))))
    weighted = float(finite @ np.cos(np.arange(finite.size)))
    return Short(name, total, float(np.abs(finite).sum()), weighted, int((~is_finite).sum()), tolerance)
