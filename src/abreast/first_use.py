"""The first training of a process on placed devices, and other calls on them: `abreast run` prints a line about these.

Imports neither Keras nor a framework, because `abreast run` listens before its script imports them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abreast.backend.contract import Placement

# A function of the placement, and the number of rows of its first global batch; None if that is unknown.
Listener = Callable[["Placement", int | None], None]
_listener: Listener | None = None
_computes_on: tuple[str, ...] | None = None


def listen(listener: Listener | None) -> None:
    """Call `listener` once, at the next training, after its first batch has been read; None ends that."""
    global _listener
    _listener = listener


def without_training(placement: Placement) -> None:
    """Note that an `evaluate` or `predict` begins on devices. Any thread may call this."""
    global _computes_on
    _computes_on = placement.devices


def computes_on() -> tuple[str, ...] | None:
    """The devices of the last `evaluate` or `predict`; None if there was none."""
    return _computes_on


def begins(placement: Placement, rows: int | None) -> None:
    """Report to the listener that a training has read its first batch. Any thread may call this."""
    global _listener
    listener, _listener = _listener, None
    if listener is not None:
        listener(placement, rows)
