"""Workers of a PyTorch `DataLoader`, which other backends read too. Not here: ending them (`workers.py`). Imports nothing."""

from __future__ import annotations

from typing import Any


def num_workers(loader: Any) -> int:
    """Processes that a loader reads in; 0 where it reads in this one."""
    return int(getattr(loader, "num_workers", 0))


def can_have_more_workers(loader: Any) -> bool:
    """Whether it has workers already: more of them would not be the first time that the user's process forks."""
    return num_workers(loader) > 0 and hasattr(loader, "batch_sampler")


def with_workers(loader: Any, workers: int) -> Any:
    """The same loader with so many workers."""
    return type(loader)(
        loader.dataset,
        batch_sampler=loader.batch_sampler,
        collate_fn=loader.collate_fn,
        num_workers=workers,
        pin_memory=loader.pin_memory,
    )
