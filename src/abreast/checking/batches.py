"""Fingerprints of the batches that Keras's data adapters give, on either side: is it the data that differ?

Both sides read through the adapter that Keras chose, so one wrapper sees both. A pass is one iterator over a source. Imports
Keras, NumPy, `backend` and `feed`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from keras import tree

from abreast.backend.reading import ITERATORS, watched_pipeline
from abreast.feed import FeedIterator

_depth = threading.local()


@dataclass(frozen=True)
class Print:
    """`batch` stands for a batch as it is, `rows` for its rows in any order."""

    batch: str
    rows: str


@dataclass
class Watch:
    """The batches of one source, pass by pass, and how many of them steps have used. `draws`: from NumPy's generator.

    `taken` are those that our feed handed to steps, which are asked first: the feed may have lost or doubled one.
    """

    passes: list[list[Print]] = field(default_factory=list)
    taken: dict[FeedIterator, list[Print]] = field(default_factory=dict)
    draws: bool = False
    _used: dict[int, int] = field(default_factory=dict)

    def used(self, count: int) -> Print | None:
        """What the step that has just ended used: the next `count` batches of the pass that began last."""
        passes = list(self.taken.values()) or self.passes
        number = next((n for n in reversed(range(len(passes))) if passes[n]), None)
        if number is None:
            return None
        first = self._used.get(number, 0)
        self._used[number] = first + count
        prints = passes[number][first : first + count]
        if not prints:
            return None
        return Print(_joined([each.batch for each in prints]), _joined(sorted(each.rows for each in prints)))

    def begin(self) -> Callable[[Any], None]:
        """Begin a pass; gives what takes its batches."""
        one: list[Print] = []
        self.passes.append(one)
        return lambda batch: one.append(fingerprint(batch))


def fingerprint(batch: Any) -> Print:
    """The same for equal numbers, whatever framework holds them, in whatever precision of float."""
    leaves = [_numbers(leaf) for leaf in tree.flatten(batch) if leaf is not None]
    whole = hashlib.blake2b(digest_size=12)
    for leaf in leaves:
        whole.update(f"{leaf.shape}".encode() + leaf.tobytes())
    rows = min((len(leaf) for leaf in leaves if leaf.ndim), default=0)
    each = sorted(
        hashlib.blake2b(b"".join(leaf[i].tobytes() for leaf in leaves), digest_size=8).hexdigest() for i in range(rows)
    )
    return Print(f"{rows} rows {whole.hexdigest()}", _joined(each))


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else hashlib.blake2b("".join(parts).encode(), digest_size=12).hexdigest()


def _numbers(leaf: Any) -> Any:
    for dense in ("toarray", "to_tensor", "todense"):
        if hasattr(leaf, dense):
            leaf = getattr(leaf, dense)()
    array = np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)
    if array.dtype.kind == "f" or str(array.dtype) == "bfloat16":
        return array.astype("float32")
    if array.dtype.kind in "iub":
        return array.astype("int64")
    return array.astype("S")


def watch(adapter: Any, seen: Watch) -> None:
    """Let an adapter show its batches from now on."""
    for name in ITERATORS:
        if (plain := getattr(adapter, name, None)) is not None:
            setattr(adapter, name, _watched(plain, seen))
    if (plain := getattr(adapter, "get_tf_dataset", None)) is not None:
        adapter.get_tf_dataset = _watched_dataset(plain, seen)


@contextmanager
def watched_feeds(watch_of: Callable[[Any], Watch | None]) -> Iterator[None]:
    """Let our feeds show what steps take of the sources that `watch_of` knows."""
    plain = FeedIterator.take

    def take(self: FeedIterator) -> Any:
        taken = plain(self)
        if (seen := watch_of(self.source)) is not None:
            seen.taken.setdefault(self, []).append(fingerprint(taken.host.data))
        return taken

    FeedIterator.take = take  # type: ignore[method-assign]
    try:
        yield
    finally:
        FeedIterator.take = plain  # type: ignore[method-assign]


def _watched(plain: Callable[[], Any], seen: Watch) -> Callable[[], Any]:
    def batches() -> Any:
        source = plain()
        return _iterate(source, seen) if hasattr(source, "__next__") else _Source(source, seen)

    return batches


def _watched_dataset(plain: Callable[[], Any], seen: Watch) -> Callable[[], Any]:
    def dataset() -> Any:
        found = plain()
        return watched_pipeline(found, seen.begin) or _Source(found, seen)

    return dataset


class _Source:
    """A loader that is iterated over again and again."""

    def __init__(self, inner: Any, seen: Watch) -> None:
        self._inner, self._seen = inner, seen

    def __iter__(self) -> Iterator[Any]:
        return _iterate(iter(self._inner), self._seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _iterate(batches: Iterator[Any], seen: Watch) -> Iterator[Any]:
    """The batches; one adapter method that calls another shows each of them once."""
    show = seen.begin() if not getattr(_depth, "inside", False) else None
    return _showing(batches, seen, show)


def _showing(batches: Iterator[Any], seen: Watch, show: Callable[[Any], None] | None) -> Iterator[Any]:
    while True:
        outer, _depth.inside = getattr(_depth, "inside", False), True
        before = _position()
        try:
            batch = next(batches)
        except StopIteration:
            return
        finally:
            _depth.inside = outer
        seen.draws = seen.draws or _position() != before
        if show is not None and not outer:
            show(batch)
        yield batch


def _position() -> tuple[int, int]:
    state: Any = np.random.get_state()
    return int(state[1][0]), int(state[2])
