"""Conditions in a traced step that values of rows decide. The backend finds them. Imports no framework."""

from __future__ import annotations

from typing import Any

from abreast.exact.warn_once import warn_once


def announce_conditions(model: Any) -> None:
    """Warn, once per model, of conditions in a graph that values of one replica's rows decide."""
    warn_once(
        model,
        "conditions",
        f"the step of {model.name} has a condition (`cond`, `switch_case`) on values of rows: each device decides by its own "
        "rows, plain Keras by all. Choose by row with `ops.where`, or decide by something that all rows share",
    )
