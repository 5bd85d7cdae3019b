"""Seeds of the ranks: code without a seed of its own draws different numbers on each rank, and restarts when the user seeds."""

from __future__ import annotations

import functools
from typing import Any

import keras
import torch

_num_seeded = 0


def seeded() -> tuple[int, int]:
    """The number of times this process was seeded, and the last seed; if the value changes, the workers get a new seed."""
    return _num_seeded, torch.initial_seed()


def seed_of(model: Any) -> int:
    """The user's seed, moved on by the steps of a training: a model that is sent again repeats no random numbers."""
    optimizer = getattr(model, "optimizer", None)
    return torch.initial_seed() + 7919 * (0 if optimizer is None else int(optimizer.iterations))


def drawn_on_cpu() -> bytes:
    """The state of the CPU's generator."""
    return torch.get_rng_state().numpy().tobytes()


def seed_rank(seed: int, rank: int) -> None:
    """Seed the generators of torch, NumPy and Python, differently on every rank."""
    keras.utils.set_random_seed((seed + rank * 1_000_003) % 2**32)


@functools.cache
def install() -> None:
    """Count calls of `torch.manual_seed`, which may repeat the same seed. Runs once per process."""
    plain = torch.manual_seed

    @functools.wraps(plain)
    def manual_seed(seed: Any) -> torch.Generator:
        global _num_seeded
        _num_seeded += 1
        return plain(seed)

    torch.manual_seed = torch.random.manual_seed = manual_seed
