"""Sources are read in plain Keras's order, and never ahead of changes that they could see: callbacks, weights, random draws."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers
from tests.harness.installed import keras_is_older_than, skip_if_older_keras_reads_ahead


class _Bodies:
    """The functions of `order_bodies.py` by name: pytest itself must not import Keras."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(__module__="tests.feed.order_bodies", __name__=name)


bodies = _Bodies()


def reads_as_it_steps(workers: Workers) -> bool:
    """On TensorFlow, plain Keras wraps generators and data sets in `tf.data`, which reads them ahead."""
    return workers.backend != "tensorflow"


def test_a_generator_for_training_and_validation_gives_each_its_batches(workers: Workers) -> None:
    """Keras looks at two batches when it opens a source: at that of validation after the first epoch."""
    skip_if_older_keras_reads_ahead(workers.backend)
    expected = {"loss": [[0, 1, 2, 3], [6, 7, 8, 9]], "val_loss": [[4, 5], [4, 5]]}
    assert workers.abreast.run(bodies.one_generator, devices=2) == expected
    if reads_as_it_steps(workers):
        assert workers.plain.run(bodies.one_generator, devices=0) == expected


@pytest.mark.in_turn(1)
def test_sources_that_share_a_random_generator_draw_in_the_order_of_keras(workers: Workers) -> None:
    """On TensorFlow with data sets: their epoch has an end, where Keras's reading ahead waits."""
    generator = reads_as_it_steps(workers)
    plain = workers.plain.run(bodies.shared_draws, devices=0, generator=generator)
    placed = workers.abreast.run(bodies.shared_draws, devices=2, generator=generator)
    assert placed.keys() == plain.keys() >= {"loss", "val_loss", "alone", "next"}
    for name, values in plain.items():
        assert placed[name] == pytest.approx(values, rel=1e-5), name  # measured 1e-7


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["tf.data", "PyDataset", "torch", "grain"])
def test_random_draws_of_opening_a_source_change_later_shuffles_as_with_keras(workers: Workers, kind: str) -> None:
    """PyTorch's loaders draw a seed from its global generator when they begin, also where Keras puts one around `tf.data`."""
    if kind == "grain" and keras_is_older_than("3.15"):
        pytest.skip("before 3.15, Keras imports a module of grain that its newer versions have not")
    plain = workers.plain.run(bodies.shuffles_beside, kind=kind, devices=0)
    assert workers.abreast.run(bodies.shuffles_beside, kind=kind, devices=2) == pytest.approx(plain, rel=1e-4, abs=1e-6)


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("generator", [False, True], ids=["data set", "generator"])
def test_a_source_sees_changes_by_a_callback_on_batches(workers: Workers, generator: bool) -> None:
    skip_if_older_keras_reads_ahead(workers.backend)
    found = workers.abreast.run(bodies.curriculum, devices=2, generator=generator)
    assert found["batches"] == list(range(1 if generator else 0, 8))  # 1 + 1 = 2: two batches before the first step
    assert "reading ahead is off: After acts on batches" in found["said"]
    assert "hint: prefetch=2" in found["said"]
    if reads_as_it_steps(workers):
        plain = workers.plain.run(bodies.curriculum, devices=0, generator=generator)
        assert plain["batches"] == found["batches"]


def test_a_source_sees_changes_by_a_step_in_python(workers: Workers) -> None:
    skip_if_older_keras_reads_ahead(workers.backend)
    found = workers.abreast.run(bodies.counting_step, devices=1)
    assert found["batches"] == list(range(8))
    assert "reading ahead is off: Counts.train_step acts on batches" in found["said"]


def test_prefetch_set_by_hand_reads_ahead_beside_such_a_callback(workers: Workers) -> None:
    found = workers.abreast.run(bodies.curriculum, devices=2, prefetch=2)
    assert found["said"] == ""
    assert found["batches"] != list(range(8))


@pytest.mark.in_turn
def test_a_source_sees_the_weights_of_the_last_step(workers: Workers) -> None:
    """On JAX plain Keras raises there, and so does abreast."""
    found = workers.abreast.run(bodies.weights_in_the_source, devices=2)
    assert "reading ahead is off: the data source reads variables of the model in training" in found["said"]
    with_plain_keras = workers.plain.run(bodies.weights_in_the_source, devices=0)
    if workers.backend == "jax":
        assert found["losses"] == with_plain_keras["losses"] == ["'NoneType' object is not callable"]
        return
    between = workers.abreast.run(bodies.weights_in_the_source, devices=2, prefetch=0)
    assert found["losses"] == pytest.approx(between["losses"], rel=1e-6)
    if reads_as_it_steps(workers):
        assert found["losses"] == pytest.approx(with_plain_keras["losses"], rel=1e-5)


def test_a_source_and_a_step_that_share_a_random_generator_take_turns(workers: Workers) -> None:
    found = workers.abreast.run(bodies.draws_in_the_loss, devices=1)
    assert "the data source and something else draw from Python's or NumPy's global generator" in found["said"]
    between = workers.abreast.run(bodies.draws_in_the_loss, devices=1, prefetch=0)
    assert found["losses"] == pytest.approx(between["losses"], rel=1e-6)


@pytest.mark.in_turn
def test_the_fit_after_an_early_end_begins_at_the_next_batch(workers: Workers) -> None:
    expected = [[4, 5, 6], [7, 8, 9]]
    assert workers.abreast.run(bodies.fit_after_an_early_end, devices=2) == expected
    if reads_as_it_steps(workers):
        assert workers.plain.run(bodies.fit_after_an_early_end, devices=0) == expected


@pytest.mark.in_turn(1)
def test_a_data_set_that_was_read_too_far_by_an_early_end_is_announced(workers: Workers) -> None:
    said = [workers.abreast.run(bodies.dataset_after_an_early_end, devices=2, prefetch=depth) for depth in (2, 0)]
    assert ["3 batches that were read ahead from the data source are lost" in each for each in said] == [True, False]


@pytest.mark.in_turn
def test_a_source_that_calls_a_placed_model_takes_turns_with_the_steps(workers: Workers) -> None:
    found = workers.abreast.run(bodies.teacher_in_the_source, devices=2)
    between = workers.abreast.run(bodies.teacher_in_the_source, devices=2, prefetch=0)
    assert found["losses"] == pytest.approx(between["losses"], rel=1e-6)
    assert "the data source calls predict of a model on 2 devices" in found["said"]


def test_pipelines_that_call_python_are_sources_in_this_process(workers: Workers) -> None:
    assert workers.abreast.run(bodies.python_in_pipelines) == [False, True, True]
