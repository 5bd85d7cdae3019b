"""Fingerprints of the batches of Keras's data adapters, on both sides, which show whether the data differ.

Both sides read through the adapter that Keras chose, so the same wrapper works for both. A pass is one iterator over a source.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abreast.arrays import arrays_of
from abreast.backend.reading import ITERATORS, watched_pipeline
from abreast.feed import FeedIterator
from abreast.replacing import replaced

_depth = threading.local()


@dataclass(frozen=True)
class Fingerprint:
    """Hashes of a batch: `batch` depends on the order of its rows, `rows` does not."""

    batch: str
    rows: str


@dataclass
class SourceFingerprints:
    """The fingerprints of one source's batches, pass by pass, and the number that steps have used.

    `taken` are the batches that our feed passed to steps. They have precedence, because a faulty feed could lose or double a
    batch. `draws`: true if the source draws from NumPy's global generator.
    """

    passes: list[list[Fingerprint]] = field(default_factory=list)
    taken: dict[FeedIterator, list[Fingerprint]] = field(default_factory=dict)
    draws: bool = False
    _used: dict[int, int] = field(default_factory=dict)

    def used(self, count: int) -> Fingerprint | None:
        """The batches of the step that has just ended: the next `count` batches of the pass that began last."""
        passes = list(self.taken.values()) or self.passes
        number = next((n for n in reversed(range(len(passes))) if passes[n]), None)
        if number is None:
            return None
        first = self._used.get(number, 0)
        self._used[number] = first + count
        prints = passes[number][first : first + count]
        if not prints:
            return None
        return Fingerprint(_joined([each.batch for each in prints]), _joined(sorted(each.rows for each in prints)))

    def begin(self) -> Callable[[Any], None]:
        """Begin a pass; returns the function to call with each of its batches."""
        one: list[Fingerprint] = []
        self.passes.append(one)
        return lambda batch: one.append(fingerprint(batch))


def fingerprint(batch: Any) -> Fingerprint:
    """The fingerprint of a batch: equal for equal numbers, in any framework's tensors and any precision of float."""
    leaves = [_numbers(leaf) for leaf in arrays_of(batch)]
    whole = hashlib.blake2b(digest_size=12)
    for leaf in leaves:
        whole.update(f"{leaf.shape}".encode() + leaf.tobytes())
    rows = min((len(leaf) for leaf in leaves if leaf.ndim), default=0)
    each = sorted(
        hashlib.blake2b(b"".join(leaf[i].tobytes() for leaf in leaves), digest_size=8).hexdigest() for i in range(rows)
    )
    return Fingerprint(f"{rows} rows {whole.hexdigest()}", _joined(each))


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


def watch(adapter: Any, seen: SourceFingerprints) -> None:
    """From now on, add the fingerprint of every batch of an adapter to `seen`."""
    for name in ITERATORS:
        if (plain := getattr(adapter, name, None)) is not None:
            setattr(adapter, name, _watched(plain, seen))
    if (plain := getattr(adapter, "get_tf_dataset", None)) is not None:
        adapter.get_tf_dataset = _watched_dataset(plain, seen)


@contextmanager
def watched_feeds(seen_of: Callable[[Any], SourceFingerprints | None]) -> Iterator[None]:
    """Inside, fingerprint the batches that steps take from our feeds, if `seen_of` returns a record for the source."""
    plain = FeedIterator.take

    def take(self: FeedIterator) -> Any:
        taken = plain(self)
        if (seen := seen_of(self.source)) is not None:
            seen.taken.setdefault(self, []).append(fingerprint(taken.host.data))
        return taken

    with replaced(FeedIterator, "take", take):
        yield


def _watched(plain: Callable[[], Any], seen: SourceFingerprints) -> Callable[[], Any]:
    def batches() -> Any:
        source = plain()
        return _iterate(source, seen) if hasattr(source, "__next__") else _WatchedLoader(source, seen)

    return batches


def _watched_dataset(plain: Callable[[], Any], seen: SourceFingerprints) -> Callable[[], Any]:
    def dataset() -> Any:
        found = plain()
        return watched_pipeline(found, seen.begin) or _WatchedLoader(found, seen)

    return dataset


class _WatchedLoader:
    """A loader whose every iteration is a pass."""

    def __init__(self, inner: Any, seen: SourceFingerprints) -> None:
        self._inner, self._seen = inner, seen

    def __iter__(self) -> Iterator[Any]:
        return _iterate(iter(self._inner), self._seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _iterate(batches: Iterator[Any], seen: SourceFingerprints) -> Iterator[Any]:
    """The batches, each recorded once, even if one adapter method calls another."""
    show = seen.begin() if not getattr(_depth, "inside", False) else None
    return _showing(batches, seen, show)


def _showing(batches: Iterator[Any], seen: SourceFingerprints, show: Callable[[Any], None] | None) -> Iterator[Any]:
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
    """The place of NumPy's global generator in its sequence."""
    state: Any = np.random.get_state()
    return int(state[1][0]), int(state[2])
