"""Variables that a step changes and that neither the model nor its optimizers hold, such as a global or one of a loss.

The row check finds those that layers and a user's own step change by their rows; the others are the same on every replica.
"""

from __future__ import annotations

from typing import Any

from abreast.errors import ModelError
from abreast.exact.assignments import is_in_optimizer
from abreast.exact.replica import current
from abreast.exact.row_check import added_states, settled_states
from abreast.exact.warn_once import warn_once


def untracked(name: str) -> ModelError:
    """The error for a framework's variable that a step changes and that replicas cannot copy."""
    return ModelError(
        f"the step changes {name} that Keras does not track: all replicas would change the same variable",
        "make it a keras.Variable; in a layer, create it with add_weight",
    )


def adds_up_in_place(model: Any, variable: Any) -> bool:
    """Whether the replicas may share a variable: each adds the part of its rows."""
    return id(variable) in added_states(model)


def announce_untracked(model: Any, variable: Any) -> None:
    """Warn of a variable that a replica changes, unless the row check knows it or every replica has the rows of all."""
    if current() is None or is_in_optimizer() or id(variable) in settled_states(model):
        return
    warn_once(
        model,
        f"untracked {id(variable)}",
        f"the step changes {variable.name!r}, a variable that Keras does not track: each replica changes its own copy, and the "
        "first replica's is kept. A count of steps is then what one device computes; a value of the rows is not",
    )


def announce_python(model: Any) -> None:
    """Warn, once per model, of Python functions that every replica's part of a graph calls."""
    warn_once(
        model,
        "python functions",
        f"the step of {model.name} calls Python through tf.py_function or tf.numpy_function: every replica calls it, with "
        "its own rows or with all. If the function keeps a state, that state changes once per replica, and not once per step",
    )
