"""PyTorch's `DataLoader`, which other backends read too: its workers, and whether its rows depend on their index alone.

Not here: the end of workers (`workers.py`), and which rows a process reads (`by_index.py`). Imports no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from abreast.stderr import tell_once

BY_INDEX = "abreast_by_index"  # an attribute of a data set: its rows depend on their index alone
_OF_TORCH = "torch.utils.data"


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


def reads_by_index(loader: Any) -> bool:
    """Whether each row of a loader depends on its index alone."""
    return _has_numbered_rows(loader) and _other_setting(loader) is None


def tell_why_whole(loader: Any) -> None:
    """Print why a loader is not read by index although its data set allows it."""
    says = any(getattr(each, BY_INDEX, False) for each in _innermost(loader.dataset))
    if says and _has_numbered_rows(loader) and (other := _other_setting(loader)) is not None:
        tell_once(
            f"every process reads the whole DataLoader, although its data set says {BY_INDEX}: it has {other}\n"
            f'hint: leave out {other}, or give each process rows of its own with source="per-host"'
        )


def _has_numbered_rows(loader: Any) -> bool:
    """Whether the rows of a loader's data sets depend on their index alone."""
    return all(
        bool(getattr(each, BY_INDEX, False)) or _name(type(each)) == "dataset.TensorDataset"
        for each in _innermost(loader.dataset)
    )


def _other_setting(loader: Any) -> str | None:
    """A setting that lets rows depend on more than their index; None if there is none."""
    return next((what for what, is_default in _settings(loader).items() if not is_default), None)


def _settings(loader: Any) -> dict[str, bool]:
    """Each setting that can let rows depend on one another or on their worker, and whether it is the default one."""
    return {
        "a class of its own": is_plain(loader),
        "no batches": loader.batch_sampler is not None,
        "a collate_fn": _name(loader.collate_fn) == "_utils.collate.default_collate",
        "a worker_init_fn": loader.worker_init_fn is None,
        "persistent_workers=True": not loader.persistent_workers,
        "in_order=False": getattr(loader, "in_order", True),
    }


def _innermost(dataset: Any) -> Iterator[Any]:
    """The data sets inside PyTorch's `Subset`, `ConcatDataset` and `StackDataset`."""
    kind = _name(type(dataset))
    if kind == "dataset.Subset":
        yield from _innermost(dataset.dataset)
    elif kind in ("dataset.ConcatDataset", "dataset.StackDataset"):
        parts = dataset.datasets
        for part in parts.values() if isinstance(parts, dict) else parts:
            yield from _innermost(part)
    else:
        yield dataset


def _name(what: Any) -> str:
    """The name of a class or function of PyTorch's data package; empty for any other."""
    module, name = getattr(what, "__module__", ""), getattr(what, "__qualname__", "")
    return f"{module}.{name}".removeprefix(f"{_OF_TORCH}.") if str(module).startswith(_OF_TORCH) else ""


def is_plain(loader: Any) -> bool:
    """Whether a loader is of PyTorch's own class, not of a subclass."""
    return _name(type(loader)) == "dataloader.DataLoader"


class _Order:
    """A batch sampler."""

    def __init__(self, begin: Callable[[], Iterator[Any]], of: Any) -> None:
        self._begin, self._of = begin, of

    def __iter__(self) -> Iterator[Any]:
        return self._begin()

    def __len__(self) -> int:
        return len(self._of)


def with_order(loader: Any, order: Callable[[], Iterator[Any]], **settings: Any) -> Any:
    """The same loader with other `settings`; its batches have the indices that `order()` yields. It draws the same seeds."""
    of_workers: Any = {
        "prefetch_factor": loader.prefetch_factor,
        "multiprocessing_context": loader.multiprocessing_context,
    }
    return type(loader)(
        loader.dataset,
        batch_sampler=_Order(order, loader.batch_sampler),
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        generator=loader.generator,
        **(of_workers if loader.num_workers else {}),
        **settings,
    )
