"""The rule for a step that the user wrote: means over a replica's rows, counted by the rows.

Imports no framework and nothing of Keras.
"""

from __future__ import annotations

from typing import Any

from abreast.exact.warn_once import warn_once


def overrides_step(model: Any, kind: str = "train") -> bool:
    """Whether the user wrote the `train_step` (or `test_step`, `predict_step`) of the model's class, or of the model."""
    return is_users(model, f"{kind}_step")


def is_users(model: Any, name: str) -> bool:
    """Whether a method of a model is not Keras's own; `functools.wraps` may lend it the name of that."""
    method = getattr(model, name)
    function = getattr(method, "__func__", method)
    return not str(getattr(function, "__globals__", {}).get("__name__")).startswith("keras.src.")


def reductions(model: Any) -> set[str]:
    """Of the compiled losses, as far as they say."""
    compiled = getattr(model, "_compile_loss", None)
    losses = [entry.loss for entry in (compiled._flat_losses or () if compiled is not None else ())]
    return {str(loss.reduction or "none") for loss in losses if hasattr(loss, "reduction")}


def _has_sums(model: Any) -> bool:
    """Whether a compiled loss is no mean over rows."""
    return bool(reductions(model) & {"sum", "mean_with_sample_weight"})


def state_rule_of_own_step(kind: str, model: Any, counts: tuple[int, ...]) -> None:
    """Say, once per model, what holds for a step that the user wrote when its shards differ in length."""
    if kind == "predict" or not overrides_step(model, kind):
        return
    if len(set(counts)) == 1 and not _has_sums(model):
        return
    warn_once(
        model,
        "own step",
        f"{type(model).__name__} has its own {kind}_step, and a batch of {sum(counts)} rows is cut into shards of "
        f"{', '.join(map(str, counts))}: each replica's gradients and logs count by its rows, which is what one "
        "device computes if the losses are means over rows",
    )
