"""The first training of a process on devices, and other calls there: `abreast run` prints a line about them.

Imports neither Keras nor a framework, because `abreast run` listens before its script imports them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abreast.backend.contract import Placement

# The placement, and the rows of its first global batch; None where these are not known.
Listener = Callable[["Placement", int | None], None]
_listener: Listener | None = None
_computes_on: tuple[str, ...] | None = None


def listen(listener: Listener | None) -> None:
    """Call `listener` at the first training from now on, when its first batch has been read; None ends that."""
    global _listener
    _listener = listener


def without_training(placement: Placement) -> None:
    """An `evaluate` or `predict` begins on devices. Any thread may call this."""
    global _computes_on
    _computes_on = placement.devices


def computes_on() -> tuple[str, ...] | None:
    """The devices of the last `evaluate` or `predict`; None if there was none."""
    return _computes_on


def begins(placement: Placement, rows: int | None) -> None:
    """A training has read its first batch. Any thread may call this."""
    global _listener
    listener, _listener = _listener, None
    if listener is not None:
        listener(placement, rows)
