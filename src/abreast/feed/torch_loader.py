"""Workers of a PyTorch `DataLoader`, which other backends read too. Not here: the end of workers (`workers.py`)."""

from __future__ import annotations

from typing import Any


def num_workers(loader: Any) -> int:
    """Number of processes in which a loader reads; 0 if it reads in this process."""
    return int(getattr(loader, "num_workers", 0))


def can_have_more_workers(loader: Any) -> bool:
    """Whether a loader has workers already, so that the user's process forks anyway."""
    return num_workers(loader) > 0 and hasattr(loader, "batch_sampler")


def with_workers(loader: Any, workers: int) -> Any:
    """The same loader with another number of workers."""
    return type(loader)(
        loader.dataset,
        batch_sampler=loader.batch_sampler,
        collate_fn=loader.collate_fn,
        num_workers=workers,
        pin_memory=loader.pin_memory,
    )
