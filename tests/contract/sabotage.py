"""Ways to break abreast on purpose, so that the contract tests are seen to notice. Run in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.contract.cases import Case, Results, run


def run_with_other_data(case: Case) -> Results:
    """Plain Keras on one row fewer."""
    return run(replace(case, rows=case.rows - 1))


def exit_now() -> None:
    import os

    os._exit(3)


def sleep(seconds: float) -> None:
    import time

    time.sleep(seconds)


def loaded_modules() -> Any:
    import sys

    return sorted(sys.modules)


def without_all_reduce(case: Case, devices: int) -> Results:
    """The job where the caller's replica learns from its own rows only, as if nobody had summed the gradients."""
    import keras

    cut = {"jax": _cut_in_jax, "tensorflow": _cut_in_tensorflow, "torch": _cut_in_torch}
    with cut[keras.backend.backend()]():
        return run(case, devices=devices)


def counting_stand_ins(case: Case, devices: int) -> Results:
    """The job where rows that only fill up a shard count like the others, as if the row counts were lost."""
    from abreast.backend import current_backend

    backend: Any = current_backend()
    plain = backend.put

    def put(batch: Any, placement: Any) -> Any:
        staged = plain(batch, placement)
        if backend.name == "jax":
            return replace(staged, rows=staged.padded_rows)
        return replace(staged, counts=tuple(max(1, count) for count in staged.counts))

    backend.put = put
    try:
        return run(case, devices=devices)
    finally:
        del backend.put


@contextmanager
def _cut_in_jax() -> Iterator[None]:
    """XLA puts the all-reduce in; what a device would learn without it is what its shard alone teaches."""
    from abreast.backend.jax.backend import BACKEND
    from abreast.feed import HostBatch
    from abreast.shares import shares_of

    backend: Any = BACKEND
    plain = backend.put

    def put(batch: Any, placement: Any) -> Any:
        return plain(HostBatch.of(batch.rows_at(shares_of(batch.rows, placement.num_devices).slices[0])), placement)

    backend.put = put
    try:
        yield
    finally:
        del backend.put


@contextmanager
def _cut_in_tensorflow() -> Iterator[None]:
    from abreast.backend.tensorflow.reduce import Reducer

    with _replaced(Reducer, "sum_gradients", lambda self, values: [list(row) for row in values]):
        yield


@contextmanager
def _cut_in_torch() -> Iterator[None]:
    """Rank 0 takes part in every exchange, so that nobody waits for it, and keeps its own gradients."""
    import torch.distributed as dist

    from abreast.backend.torch import sums

    plain_start, plain_sum = sums.State.start, sums.Gradients._sum

    def start(self: Any, gradients: Any = ()) -> None:
        plain_start(self, [gradient.clone() for gradient in gradients])

    def sum_apart(self: Any, gradients: Any) -> None:
        plain_sum(self, [gradient.clone() for gradient in gradients])

    def sum_bucket(group: Any, bucket: Any, begun_ns: Any) -> Any:
        work = dist.all_reduce(bucket.buffer().clone(), group=group, async_op=True)
        return work.get_future().then(lambda _: bucket.buffer())

    with (
        _replaced(sums.State, "start", start),
        _replaced(sums.Gradients, "_sum", sum_apart),
        _replaced(sums, "_sum_bucket", sum_bucket),
    ):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    plain = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, plain)
