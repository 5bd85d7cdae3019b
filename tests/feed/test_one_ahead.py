"""On GPUs, and up to Keras 3.14 on CPUs, plain Keras on JAX reads a source one batch before its step: so does abreast.

There is no GPU here: Keras is told that there is one.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Worker, Workers
from tests.harness.installed import skip_if_older_keras_reads_ahead

_as_on_a_gpu: Any = SimpleNamespace(__module__="tests.feed.one_ahead_bodies", __name__="as_on_a_gpu")


@pytest.fixture
def jax(workers: Workers) -> Workers:
    if workers.backend != "jax":
        pytest.skip("JAX only")
    return workers


def run(worker: Worker, name: str, module: str = "feed.one_ahead_bodies", **arguments: Any) -> Any:
    return worker.run(_as_on_a_gpu, module=f"tests.{module}", name=name, **arguments)


def numbers(found: Any) -> list[Any]:
    """The numbers and texts within a result, in order."""
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else None
    return [found] if parts is None else [number for part in parts for number in numbers(part)]


_BODIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "first batches": ("feed.one_ahead_bodies", "first_batches", {}),
    "generator": ("feed.one_ahead_bodies", "fits_on_a_generator", {}),
    "early end": ("feed.one_ahead_bodies", "stops_early", {}),
    "error": ("feed.one_ahead_bodies", "raises", {}),
    "one generator": ("feed.order_bodies", "one_generator", {}),
    "shared draws": ("feed.order_bodies", "shared_draws", {"generator": False}),
    "shared draws of a generator": ("feed.order_bodies", "shared_draws", {"generator": True}),
    "ended by a callback": ("feed.order_bodies", "fit_after_an_early_end", {}),
    "shuffles beside a data set": ("feed.order_bodies", "shuffles_beside", {"kind": "PyDataset"}),
    "shuffles beside a loader": ("feed.order_bodies", "shuffles_beside", {"kind": "torch"}),
    "shuffles beside grain": ("feed.order_bodies", "shuffles_beside", {"kind": "grain"}),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", _BODIES)
def test_sources_are_read_as_keras_reads_them_on_a_gpu(jax: Workers, name: str) -> None:
    module, body, arguments = _BODIES[name]
    plain = run(jax.plain, body, module, devices=0, **arguments)
    assert numbers(run(jax.abreast, body, module, devices=2, **arguments)) == pytest.approx(numbers(plain), rel=1e-5)


def test_this_differs_from_a_cpu(jax: Workers) -> None:
    """Else the tests above would show nothing."""
    skip_if_older_keras_reads_ahead("jax")
    on_a_cpu: Any = SimpleNamespace(__module__="tests.feed.one_ahead_bodies", __name__="first_batches")
    on_a_gpu = run(jax.plain, "first_batches", devices=0)
    assert jax.plain.run(on_a_cpu, devices=0) == [2, 4, 8, 1] * 2
    if on_a_gpu == [2, 4, 8, 1] * 2:
        pytest.skip("this Keras (3.16) reads this data set on a GPU as on a CPU")
    assert on_a_gpu == [4, 8, 1, 2] * 2
    assert jax.abreast.run(on_a_cpu, devices=2) == [2, 4, 8, 1] * 2


@pytest.mark.in_turn
@pytest.mark.parametrize("prefetch", [0, 2])
def test_prefetch_changes_nothing_of_this(jax: Workers, prefetch: int) -> None:
    bodies = (
        "fits_on_a_generator",
        "stops_early",
        "raises",
        "fits_until_it_raises",
        "without_rows_after_the_last_step",
    )
    for body in bodies:
        plain = run(jax.plain, body, devices=0)
        found = run(jax.abreast, body, devices=2, prefetch=prefetch)
        assert numbers(found) == pytest.approx(numbers(plain), rel=1e-5), body


@pytest.mark.parametrize("generator", [False, True])
def test_a_source_sees_a_callback_one_batch_later(jax: Workers, generator: bool) -> None:
    plain = run(jax.plain, "curriculum", "feed.order_bodies", devices=0, generator=generator)
    found = run(jax.abreast, "curriculum", "feed.order_bodies", devices=2, generator=generator)
    assert found["batches"] == plain["batches"]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_source_that_reuses_its_array_gives_each_batch(jax: Workers, prefetch: int) -> None:
    """Keras has read two batches before the first step: the second one is trained on twice."""
    assert run(jax.abreast, "one_array", devices=2, prefetch=prefetch) == [2, 2, 4, 8, 16, 32]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "kind",
    ["data set", "data set that draws", "data set with threads", "generator", "generator beside a callback", "loader"],
)
def test_a_fit_goes_on_as_it_would_have_on_a_gpu(jax: Workers, tmp_path: Path, kind: str) -> None:
    settings: dict[str, Any] = {"kind": kind, "data": str(tmp_path)}
    undisturbed = run(jax.abreast, "train", "checkpoints.test_fit_sources", **settings)
    found = run(jax.abreast, "train", "checkpoints.test_fit_sources", interrupted_at=(2, 4, 3), **settings)
    assert found["weights"] == undisturbed["weights"]


@pytest.mark.in_turn
def test_validations_go_on_as_they_would_have_on_a_gpu(jax: Workers, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"folder": str(tmp_path), "interrupted_at": (4, 2, 5, 4)}
    body = ("validate_on_a_generator", "checkpoints.test_fit_sources")
    assert run(jax.abreast, *body, **settings) == run(jax.abreast, *body)


@pytest.mark.in_turn
@pytest.mark.parametrize("signals", [("step", "start"), ("validation", "start"), ("validation", "validation")])
@pytest.mark.parametrize("kind", ["generator", "data set"])
def test_a_second_restart_before_any_step_draws_the_same(
    jax: Workers, tmp_path: Path, kind: str, signals: tuple[str, ...]
) -> None:
    settings: dict[str, Any] = {"kind": kind, "folder": str(tmp_path), "signals": signals}
    undisturbed, found = run(jax.abreast, "two_restarts_without_a_step", **settings)
    assert found == undisturbed


def test_parts_in_one_array_are_copied(jax: Workers) -> None:
    assert run(jax.abreast, "parts_in_one_array") == [0, 1, 2, 3]
