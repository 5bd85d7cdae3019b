"""Warnings of what a traced step has: conditions on values of rows, and objects that replicas share. The backend finds them.

Imports no framework.
"""

from __future__ import annotations

from typing import Any

from abreast.exact.warn_once import warn_once


def announce_conditions(model: Any) -> None:
    """Warn, once per model, of conditions in a graph that values of one replica's rows decide."""
    warn_once(
        model,
        "conditions",
        f"the step of {model.name} has a condition (`cond`, `switch_case`, `while_loop`) on values of rows: each device decides "
        "by its own "
        "rows, plain Keras by all. Choose by row with `ops.where`, or decide by something that all rows share",
    )


def announce_resources(model: Any) -> None:
    """Warn, once per model, of iterators, tables and queues that the replicas of a graph share."""
    warn_once(
        model,
        "resources",
        f"the step of {model.name} uses an iterator, a table or a queue of TensorFlow: the replicas take turns with it, and the "
        "row check has used it too, so each gets other elements, or changes it more often, than plain Keras on one device. Let "
        "the data source give what the step reads there",
    )
