"""The search for a relation between rows that only gradients have: `x + mean(x) - stop_gradient(mean(x))`.

The gradient of a weighted sum of the outputs is the sum of the gradients of two parts, unless rows are related. Imports no
framework.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from abreast.exact.calls import as_array, is_tensor
from abreast.exact.members import members
from abreast.exact.probe import Probe
from abreast.exact.rows import RowRange, size
from abreast.exact.users_code import members_that_name

# Names of the user's code without which gradients follow from the values.
_STOPS = {"stop_gradient", "detach", "no_grad", "custom_gradient", "apply", "register_hook", "scale_grad_by_freq"}
_NOISE = 1e-3  # of a weight's gradient, and of the largest one
_NOISE_OF_ALL = 1e-5


def members_that_stop_gradients(model: Any) -> list[int]:
    """The numbers of the members whose code, written by the user, may give values another gradient than their own.

    So may modules of PyTorch and their hooks.
    """
    foreign = [number for number, each in enumerate(members(model)) if _has_module_or_hooks(each)]
    return sorted({*members_that_name(model, _STOPS), *foreign})


def _has_module_or_hooks(member: Any) -> bool:
    has_hooks = any(vars(member).get(name) for name in ("_backward_hooks", "_backward_pre_hooks"))
    return has_hooks or isinstance(member, keras.layers.TorchModuleWrapper)


class GradientSearch:
    """Gradients of a weighted sum of the outputs.

    `run(values, part)` returns the outputs for the rows of a part, with `values` in place of the weights, by identity.
    """

    def __init__(
        self,
        run: Callable[[dict[int, Any], RowRange], Any],
        weights: Sequence[Any],
        parts: Sequence[RowRange],
        probe: Probe,
    ) -> None:
        self._run, self._weights, self._parts, self._probe = run, weights, parts, probe
        self._everything = RowRange(parts[0].total, 0, parts[0].total)

    def relate_rows(self) -> bool:
        """Whether the gradients of all rows are not the sums of the gradients of the parts."""
        return self._are_no_sums([(part, part) for part in self._parts])

    def are_not_linear(self) -> bool:
        """Whether they are not the sums of what each part of the rows of the sum gives, as of a gradient that is clipped."""
        return self._are_no_sums([(self._everything, part) for part in self._parts])

    def _are_no_sums(self, runs: Sequence[tuple[RowRange, RowRange]]) -> bool:
        found = []
        for rows, counting in ((self._everything, self._everything), *runs):
            compute = functools.partial(self._weighted_sum, rows, counting)
            gradients = self._probe.gradients(compute, [weight.value for weight in self._weights])
            if gradients is None:
                return False
            found.append([None if each is None else as_array(ops.convert_to_tensor(each)) for each in gradients])
        return _are_no_sums(found)

    def _weighted_sum(self, rows: RowRange, counting: RowRange, tensors: Sequence[Any]) -> Any:
        """The weighted sum of the outputs of some rows; `counting`: those of them that have a weight."""
        outputs = self._run({id(weight): each for weight, each in zip(self._weights, tensors, strict=True)}, rows)
        floats = [leaf for leaf in tree.flatten(outputs) if is_tensor(leaf) and _has_rows(leaf, rows)]
        sums = [ops.sum(ops.multiply(ops.cast(leaf, "float32"), _weights(leaf, rows, counting))) for leaf in floats]
        return sum(sums[1:], sums[0]) if sums else None


def _has_rows(leaf: Any, part: RowRange) -> bool:
    return len(leaf.shape) > 0 and leaf.shape[0] == part.rows and keras.backend.is_float_dtype(leaf.dtype)


def _weights(leaf: Any, part: RowRange, counting: RowRange) -> Any:
    """Numbers that differ from row to row and from entry to entry; 0 for rows that do not count."""
    shape = tuple(leaf.shape[1:])
    rows = np.arange(part.first, part.last, dtype="float32").reshape(-1, *(1 for _ in shape))
    entries = np.arange(int(np.prod(shape)), dtype="float32").reshape(1, *shape) if shape else 0
    counts = (counting.first <= rows) & (rows < counting.last)
    return ops.convert_to_tensor(np.where(counts, np.cos(1 + 2 * rows + 3 * entries), 0).astype("float32"))


def _are_no_sums(found: list[list[Any]]) -> bool:
    largest = max((size(each) for gradients in found for each in gradients if each is not None), default=0.0)
    for whole, *parts in zip(*found, strict=True):
        if whole is None or any(part is None for part in parts):
            if any(each is not None and size(each) > _NOISE_OF_ALL * largest for each in (whole, *parts)):
                return True
            continue
        own = max(size(each) for each in (whole, *parts))
        total = sum(np.asarray(each, np.float64) for each in parts)
        if not np.allclose(whole, total, rtol=0, atol=max(_NOISE * own, _NOISE_OF_ALL * largest), equal_nan=True):
            return True
    return False
