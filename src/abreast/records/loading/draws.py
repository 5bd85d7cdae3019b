"""Random numbers as a function of their position, so that threads, processes and restarts do not change them.

Philox is a function of a key and a counter (Salmon et al., SC 2011). Here the key is the seed and the epoch, and the
counter is the position. Only raw words are used: NumPy guarantees that they never change, but not that its distributions do not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError

_WORDS = 4  # words of 64 bits that Philox returns for one counter
_ORDER, _NUMBERS = 0, 1  # the counters of the two uses are 2^128 apart

Draws = npt.NDArray[np.float64]


def checked_seed(seed: int) -> int:
    """The seed. Raises `DataError` for an invalid one."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise DataError(f"seed={seed!r} is not allowed", "give a whole number from 0 to 2**64 - 1")
    return int(seed)


def permutation(seed: int, epoch: int, size: int) -> npt.NDArray[np.int64]:
    """The order of an epoch: each number below `size` once, sorted by a random word of 64 bits."""
    return np.argsort(_words(seed, epoch, _ORDER, 0, size), kind="stable")


def uniforms(seed: int, epoch: int, first: int, count: int, width: int) -> Draws:
    """`width` numbers in [0, 1) for each of `count` positions from `first` on; positions are the first axis."""
    per_place = -(-width // _WORDS)
    words = _words(seed, epoch, _NUMBERS, first * per_place, count * per_place * _WORDS)
    fractions: Draws = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return fractions.reshape(count, per_place * _WORDS)[:, :width]


def _words(seed: int, epoch: int, use: int, counter: int, count: int) -> npt.NDArray[np.uint64]:
    philox = np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=(use << 128) + counter)
    return np.atleast_1d(philox.random_raw(count))
