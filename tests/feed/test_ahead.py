"""The feed works ahead of the step: so far and no further, within an epoch, and leaves nothing running."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.client import Workers
from tests.harness.installed import skip_if_older_keras_reads_ahead


class _Bodies:
    """The functions of `bodies.py` by name: pytest itself must not import Keras."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(__module__="tests.feed.bodies", __name__=name)


bodies = _Bodies()


def test_batches_are_read_while_a_step_runs(workers: Workers) -> None:
    """A callback holds step 3 until batch 5 is read; without staging it would wait without end."""
    assert workers.abreast.run(bodies.reads_ahead, prefetch=2)["held"] == 0


def test_a_reader_that_is_closed_while_its_thread_starts_ends(workers: Workers) -> None:
    """A step that fails may close the stager while the reader begins. `join` of a thread that is not started raises."""
    assert workers.abreast.run(bodies.closed_while_starting) == {
        "closed": True,
        "took": "Closed",
        "made": 0,
        "running": False,
    }


def test_without_staging_nothing_is_read_while_a_step_runs(workers: Workers) -> None:
    """The negative control: the same callback waits in vain."""
    assert workers.abreast.run(bodies.reads_ahead, prefetch=0)["held"] == 1


@pytest.mark.in_turn
@pytest.mark.parametrize("prefetch", [1, 2, 4])
def test_no_more_batches_are_read_than_may_wait(workers: Workers, prefetch: int) -> None:
    """Behind the batch that runs, `prefetch` wait on the devices and one more with the reader."""
    ahead = workers.abreast.run(bodies.batches_ahead, prefetch=prefetch)
    assert max(ahead[2:]) == prefetch + 1  # Keras itself looks at two of a generator


@pytest.mark.in_turn
@pytest.mark.parametrize("steps", [3, 4])
def test_a_generator_is_read_as_far_as_plain_keras_reads_it(workers: Workers, steps: int) -> None:
    plain = workers.plain.run(bodies.batches_drawn, devices=0, steps=steps)
    if workers.backend == "tensorflow":  # its own prefetching reads past the end of the last epoch, more or less far
        plain = 2 * steps
    assert workers.abreast.run(bodies.batches_drawn, devices=2, steps=steps) == plain


def test_nothing_is_read_between_epochs(workers: Workers) -> None:
    """Six batches, two epochs: the calls that the data set gets, in order."""
    epoch = ["begin", *range(6), "end"]
    heard = workers.abreast.run(bodies.events_of_a_dataset)
    assert heard[-2 * len(epoch) :] == epoch * 2


def test_an_error_of_the_source_is_raised_at_its_step(workers: Workers) -> None:
    skip_if_older_keras_reads_ahead(workers.backend)
    end = workers.abreast.run(bodies.source_raises, at=4)
    assert (end["error"], end["steps"], end["threads"]) == ("ValueError: bad file 4", 4, [])
    assert "rows_that_raise" in end["functions"]


@pytest.mark.in_turn
def test_a_source_that_hangs_is_named_and_can_be_ended(workers: Workers) -> None:
    end = workers.abreast.run(bodies.source_hangs)
    assert end["error"].startswith("DataError: a step has waited")
    assert "bodies.py" in end["error"] and "in rows_that_hang" in end["error"]
    assert "for batch 3: the data source has not given it" in end["said"]
    assert end["steps"] == 3
    assert end["threads"] == []


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("how", ["stop_training", "KeyboardInterrupt", "steps_per_epoch"])
def test_stopping_early_leaves_no_thread(workers: Workers, how: str) -> None:
    assert workers.abreast.run(bodies.stopped_early, how=how) == []


@pytest.mark.in_turn
def test_stopping_early_ends_the_workers_of_a_dataset(workers: Workers) -> None:
    """Keras itself leaves them running: seven threads a fit."""
    assert workers.abreast.run(bodies.stopped_with_workers) == []


def test_a_batch_over_the_budget_is_not_staged_and_is_reported(workers: Workers) -> None:
    skip_if_older_keras_reads_ahead(workers.backend)
    end = workers.abreast.run(bodies.small_budget)
    assert end["finite"]
    assert max(end["ahead"][2:]) == 0  # Keras itself looks at two of a generator
    assert sum("none of them instead of 2 can wait on the devices" in text for text in end["warnings"]) == 1


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("same", [False, True], ids=["views", "the array itself"])
def test_a_source_with_one_buffer_trains_on_its_rows(workers: Workers, same: bool) -> None:
    assert workers.abreast.run(bodies.rows_seen, buffers=1, same=same) == list(range(8))


def test_a_source_with_a_ring_of_buffers_trains_on_its_rows_or_is_refused(workers: Workers) -> None:
    seen = workers.abreast.run(bodies.rows_seen, buffers=3)
    assert seen == list(range(8)) or "wrote into an earlier batch" in seen


def test_repeating_the_same_arrays_is_not_an_error(workers: Workers) -> None:
    assert workers.abreast.run(bodies.rows_seen, buffers=2, constant=True) == [0, 1] * 4


@pytest.mark.in_turn
def test_evaluation_in_the_middle_of_an_epoch_does_not_disturb_it(workers: Workers) -> None:
    assert workers.abreast.run(bodies.evaluated_in_between) < 1e-6  # measured 0


@pytest.mark.in_turn(1)
def test_random_rows_beside_random_layers_can_be_repeated(workers: Workers) -> None:
    """On PyTorch's CPU both draw from one generator: such a source is read between steps."""
    assert workers.abreast.run(bodies.drawn_twice) == 0.0


def test_batches_of_tf_data_are_not_copied_on_the_host(workers: Workers) -> None:
    assert workers.abreast.run(bodies.copies_of_tf_data) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prefetch": -1}, "prefetch=-1"),
        ({"prefetch": 1.5}, "prefetch=1.5"),
        ({"prefetch_bytes": 0}, "prefetch_bytes=0"),
        ({"input_timeout": 0}, "input_timeout=0"),
        ({"prefetch": 0, "input_timeout": 5}, "input_timeout needs prefetch"),
    ],
)
def test_wrong_settings_are_refused(workers: Workers, arguments: dict[str, float], message: str) -> None:
    assert message in workers.abreast.run(bodies.wrong_setting, arguments=arguments)


def test_fits_that_fail_before_their_step_leave_no_shard_in_the_workers_memory(workers: Workers) -> None:
    if workers.backend != "torch":
        pytest.skip("only PyTorch has workers")
    assert workers.abreast.run(bodies.slots_left_by_failed_fits) == [0] * 8
