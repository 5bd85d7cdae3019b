"""Batches that a Python generator gave to iterators that have ended, and their second reading in another process.

A generator may keep its draws, such as an order of rows. So it is read again with the random generators in the state before each
part. Other sources begin again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.checkpoints.generators import Generators, is_alike
from abreast.feed.jump import take_batches
from abreast.keras_private.data_adapters import NUM_BATCHES_FOR_TENSOR_SPEC


@dataclass(frozen=True)
class Passed:
    """A part of a generator: a number of batches, and the random generators' state before them; None if they drew nothing."""

    batches: int
    generators: Any = None


def passed_in_all(parts: tuple[Passed, ...], batches: int, generators: Any) -> tuple[Passed, ...]:
    """The parts, extended by one more iterator with this number of batches. Consecutive parts without draws are joined."""
    own = int(max(0, batches - NUM_BATCHES_FOR_TENSOR_SPEC))
    if not own:
        return parts
    if parts and parts[-1].generators is None and generators is None:
        return *parts[:-1], Passed(parts[-1].batches + own)
    return *parts, Passed(own, generators)


def num_batches(parts: Sequence[Passed]) -> int:
    return sum(part.batches for part in parts)


def read_again(batches: Iterator[Any], parts: Sequence[Passed], generators: Generators, wanted: int) -> Any:
    """Read these parts again, and return batch number `wanted`, from 1. Raises `DataError` if the generator ends too early."""
    found, number = None, 0
    for part in parts:
        if part.generators is not None:
            generators.put_back(part.generators)
        before = min(max(0, wanted - number), part.batches)
        found = take_batches(batches, before, part.batches) or found
        take_batches(batches, part.batches - before, part.batches)
        number += part.batches
    return found


class Watch:
    """Notes in `draws` whether an iterator draws from the random generators while it is read."""

    def __init__(self, generators: Generators) -> None:
        self.draws = False
        self._generators = generators

    def over(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches; compares the generators around each read, until one has drawn."""
        while True:
            before = None if self.draws else self._generators.read()
            try:
                batch = next(batches)
            except StopIteration:
                return
            self.draws = before is None or not is_alike(before, self._generators.read())
            yield batch
