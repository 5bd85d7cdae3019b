"""Sums and gathers in a ring of threads, over real sockets."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from abreast.errors import WorkerError
from abreast.hosts.ring import Ring
from abreast.hosts.sums_beside import SumsBeside


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


@contextmanager
def rings(size: int, silent_seconds: float = 10, **options: Any) -> Iterator[list[Ring]]:
    pairs = [tcp_pair() for _ in range(size)]  # from each rank to the next
    made = [Ring(rank, size, (pairs[rank - 1][1], pairs[rank][0]), silent_seconds, **options) for rank in range(size)]
    try:
        yield made
    finally:
        for each in made:
            each.close()
            each.error = None  # its traceback would keep what the test made, and so the threads of that


def on_each(made: list[Ring], work: Callable[[Ring], Any]) -> list[Any]:
    """What `work` returns or raises on every rank, at the same time."""
    found: dict[int, Any] = {}

    def run(ring: Ring) -> None:
        try:
            found[ring.rank] = work(ring)
        except WorkerError as error:
            found[ring.rank] = error

    threads = [threading.Thread(target=run, args=(ring,), daemon=True) for ring in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [found[ring.rank] for ring in made]


def _sum_of(values: list[Any], ring: Ring) -> Any:
    return ring.sum(values[ring.rank])


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "complex64", "bfloat16"])
def test_a_sum_has_the_same_bits_on_every_rank(size: int, dtype: str) -> None:
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    for shape in ((), (0,), (3,), (7, 5), (100_003,), (300_007, 2)):
        values = [(np.random.default_rng(rank).normal(size=shape) * 5).astype(kind) for rank in range(size)]
        with rings(size) as made:
            sums = on_each(made, partial(_sum_of, values))
        for found in sums:
            assert found.shape == shape and found.dtype == kind
            assert np.asarray(found).tobytes() == np.asarray(sums[0]).tobytes()
        exact = sum(value.astype("complex128") for value in values)
        rounding = {"float16": 0.05, "bfloat16": 1.0}.get(dtype, 1e-5)
        np.testing.assert_allclose(sums[0].astype("complex128"), exact, rtol=0, atol=rounding)


def test_a_sum_leaves_what_it_gets() -> None:
    mine = np.ones(100_000, "float32")
    with rings(2) as made:
        on_each(made, lambda ring: ring.sum(mine))
    assert mine.sum() == 100_000


def test_rows_are_gathered_in_the_order_of_the_ranks() -> None:
    counts = [3, 0, 200_000]
    with rings(3) as made:
        found = on_each(made, lambda ring: ring.rows(np.full((counts[ring.rank], 2), ring.rank, "int32")))
    for each in found:
        np.testing.assert_array_equal(each, np.repeat(np.array([0, 1, 2], "int32"), counts)[:, None].repeat(2, 1))


def test_truth_values_are_gathered() -> None:
    with rings(2) as made:
        found = on_each(made, lambda ring: ring.rows(np.array([ring.rank == 0, True])))
    assert [each.tolist() for each in found] == [[True, True, False, True]] * 2


def test_processes_that_do_different_things_find_out() -> None:
    with rings(2) as made:
        first, second = on_each(made, lambda ring: ring.sum(np.zeros(3 + ring.rank)))
    assert str(first).startswith("the processes do different things: rank 1 makes another exchange")
    assert isinstance(second, WorkerError)


def test_a_rank_that_is_gone_ends_the_others_at_once() -> None:
    with rings(3) as made:
        begun = time.monotonic()
        made[1].close()
        first, third = on_each([made[0], made[2]], lambda ring: ring.sum(np.zeros(1 << 20)))
        assert time.monotonic() - begun < 5
        assert {first.rank, third.rank} & {1}
        with pytest.raises(WorkerError, match="is gone"):  # and every later exchange
            made[0].sum(np.zeros(1))


def test_a_silent_rank_is_named() -> None:
    with rings(2, silent_seconds=1) as made:
        (error,) = on_each(made[:1], lambda ring: ring.sum(np.zeros(3)))
    assert str(error) == "rank 1 has been silent for 1 s (ABREAST_HANG_SECONDS)"


def test_whoever_looks_may_end_the_wait() -> None:
    def look() -> None:
        raise WorkerError("looked")

    with rings(2, look=look) as made:
        (error,) = on_each(made[:1], lambda ring: ring.sum(np.zeros(3)))
    assert str(error) == "looked"


def test_sums_that_were_begun_go_on_beside_the_caller() -> None:
    values = [[np.full(count, rank + 1.0) for count in (3, 200_000, 1)] for rank in range(2)]
    with rings(2) as made:
        beside = [SumsBeside(ring, lambda: 1) for ring in made]
        numbers = [beside[1].begin(value) for value in values[1]]  # does not wait for rank 0
        sums = on_each(made[:1], lambda ring: [beside[0].end(beside[0].begin(value)) for value in values[0]])
        others = [beside[1].end(number) for number in reversed(numbers)]
    for found, expected in zip(
        [*sums[0], *reversed(others)], [np.full(count, 3.0) for count in (3, 200_000, 1)] * 2, strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_the_thread_of_sums_ends_with_them() -> None:
    with rings(2) as made:
        beside = [SumsBeside(ring, lambda: 1) for ring in made]
        for number, each in [(each.begin(np.ones(3)), each) for each in beside]:
            each.end(number)
        threads = [thread for thread in threading.enumerate() if thread.name == "abreast-sums"]
        assert len(threads) >= 2
        del each, beside
        gc.collect()
        for thread in threads:
            thread.join(10)
    assert not [thread for thread in threads if thread.is_alive()]


def test_a_sum_beside_the_caller_raises_the_error_of_its_exchange() -> None:
    with rings(2, silent_seconds=1) as made:
        beside = SumsBeside(made[0], lambda: 1)
        number = beside.begin(np.zeros(3))
        with pytest.raises(WorkerError, match="rank 1 has been silent"):
            beside.end(number)


def test_a_sum_of_a_failed_step_does_not_meet_one_of_the_next_step() -> None:
    with rings(2) as made:
        step = 1
        first, second = SumsBeside(made[0], lambda: step), SumsBeside(made[1], lambda: step)
        first.begin(np.ones(3))
        first.begin(np.ones(3))
        second.begin(np.ones(3))  # its step fails before the second sum, and the script goes on
        step = 2
        numbers = [each.begin(np.full(3, 5.0)) for each in (first, second)]
        for each, number in zip((first, second), numbers, strict=True):
            with pytest.raises(WorkerError, match=r"the processes do different things|is gone"):
                each.end(number)
