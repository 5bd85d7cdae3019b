"""Detection of sources that draw from Python's or NumPy's global random generator while other code draws from it too.

Reading ahead would change the order of the draws. Not here: a framework's generator (`Stage.drawn`).
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np

_NUM_LEARNT = 3  # reads; after them Python's generator, slow to compare, is ignored if the source did not draw from it
_MT19937_BYTES = 625 * 4


def host_generators() -> dict[str, Any]:
    """The states of Python's and NumPy's global generators, by name."""
    return {"python": random.getstate(), "numpy": np.random.get_state()}


class SharedDraws:
    """Compares the states of Python's and NumPy's global generators around each read of one source."""

    def __init__(self) -> None:
        self._generators = [_Watched("numpy", _numpy_state), _Watched("python", random.getstate)]
        self._num_reads = 0

    @property
    def shared(self) -> bool:
        return any(each.source_draws and each.others_draw for each in self._generators)

    @property
    def by_source(self) -> tuple[str, ...]:
        """The generators that the source draws from: `numpy`, `python`."""
        return tuple(each.name for each in self._generators if each.source_draws)

    def begin_epoch(self) -> None:
        """Forget the last state: draws between two epochs happen in plain Keras's order anyway."""
        for each in self._generators:
            each.after = None

    def before_read(self, is_first_step: bool) -> None:
        """Compare with the state after the last read; `is_first_step`: the step in between drew seeds to build the model."""
        for each in self._generators:
            each.before = each.state()
            each.others_draw |= each.after is not None and not is_first_step and each.before != each.after

    def after_read(self) -> None:
        for each in self._generators:
            each.after = each.state()
            each.source_draws |= each.before != each.after
        self._num_reads += 1
        if self._num_reads == _NUM_LEARNT and not self._generators[1].source_draws:
            del self._generators[1]


class _Watched:
    """One generator: its state before and after the last read, and whether the source and other code changed it."""

    def __init__(self, name: str, state: Callable[[], Any]) -> None:
        self.name = name
        self.state = state
        self.before: Any = None
        self.after: Any = None
        self.source_draws = False
        self.others_draw = False


def _numpy_state() -> Any:
    """The bytes of NumPy's generator state; reading them is 50 times as fast as NumPy's own copy."""
    generator: Any = np.random.mtrand.get_bit_generator()
    if isinstance(generator, np.random.MT19937):
        return ctypes.string_at(generator.ctypes.state_address, _MT19937_BYTES)
    return str(generator.state)
