"""The doctor's rules on invented facts: which facts make each rule report a finding, and which do not. Loads no framework."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from abreast.doctor import facts as names
from abreast.doctor.facts import Callbacks, Facts, Measure, Reading, Validation
from abreast.doctor.ranking import findings

STEP = 0.040  # seconds; 64 rows


def measure(name: str, seconds: float, rows: int = 64, base: str = names.GIVEN, base_seconds: float = STEP) -> Measure:
    """Five turns, one of them slow, beside five of the base."""
    turns, base_turns = [1.0, 1.01, 0.99, 1.3, 1.0], [1.0, 1.0, 1.02, 1.3, 0.99]
    samples, base_samples = (tuple(s * turn for turn in t) for s, t in ((seconds, turns), (base_seconds, base_turns)))
    return Measure(name, name, rows, samples, base, 64, base_samples)


def facts(*measures: Measure, **known: Any) -> Facts:
    """A healthy run on two GPUs, except for the given facts."""
    quiet = {names.GIVEN: measure(names.GIVEN, STEP), names.SAME_BATCH: measure(names.SAME_BATCH, 0.99 * STEP)}
    settings: dict[str, Any] = {"devices": ("gpu:0", "gpu:1"), "batch_rows": 64, "cores": 8} | known
    return Facts(measures=quiet | {one.name: one for one in measures}, **settings)


def causes(some: Facts) -> list[str]:
    return [finding.cause for finding in findings(some)]


def waiting(seconds: float, **reading: Any) -> Facts:
    """A run in which devices wait this many seconds of each step."""
    source = Reading(8, STEP, **{"busy_cores": 1.0, "place": "load (train.py:3)", "place_is_own": True, **reading})
    return facts(measure(names.SAME_BATCH, STEP - seconds), reading=source)


def test_a_healthy_run_gets_no_finding() -> None:
    healthy = facts(
        measure(names.NO_CALLBACKS, 0.98 * STEP),
        measure(names.DOUBLE_BATCH, 1.9 * STEP, rows=128),
        measure(names.UINT8, 0.97 * STEP),
        reading=Reading(8, 0.5 * STEP),
        all_reduce_seconds=0.05 * STEP,
        validation=Validation(1.0, 10, 10),
        steps_per_epoch=100,
        callbacks=Callbacks({"Logger": 0.0001}, progress_bar=True),
    )
    assert causes(healthy) == []


@pytest.mark.parametrize(
    ("reading", "cause"),
    [
        ({"busy_cores": 0.05}, "slow-reading"),
        ({"decoding": 0.8}, "slow-decoding"),
        ({}, "slow-python"),
        ({"place_is_own": False}, "slow-source"),
        ({"workers": 4, "active_threads": 3.5}, "gil"),
        ({"workers": 4, "busy_cores": 0.1, "in_processes": True}, "slow-source"),
        ({"workers": 4, "active_threads": 3.5, "busy_cores": 0.1}, "slow-reading"),
        ({"workers": 4, "active_threads": 3.5, "busy_cores": 3.2, "decoding": 0.9}, "slow-decoding"),
    ],
)
def test_a_slow_source_is_named_by_what_its_threads_do(reading: dict[str, Any], cause: str) -> None:
    (finding,) = findings(waiting(0.5 * STEP, **reading))
    assert finding.cause == cause
    assert finding.what == "devices wait 50% of each step for data"
    assert "median 20 ms of 40 ms" in finding.evidence
    assert "load (train.py:3)" in finding.evidence
    assert finding.lost_seconds == pytest.approx(0.5 * STEP)
    assert finding.rows_per_second_after == pytest.approx(64 / (0.5 * STEP))


def test_more_workers_are_advised_where_they_were_tried_and_helped() -> None:
    slow = waiting(0.5 * STEP, busy_cores=0.05, workers=1, setting="PyDataset(workers=...)")
    tried = replace(slow, measures=slow.measures | {names.MORE_WORKERS: measure(names.MORE_WORKERS, 0.6 * STEP)})
    (finding,) = findings(tried)
    assert finding.cause == "too-few-workers"
    assert "PyDataset(workers=...)" in finding.advice
    assert finding.rows_per_second_after == pytest.approx(64 / (0.6 * STEP))
    in_vain = replace(slow, measures=slow.measures | {names.MORE_WORKERS: measure(names.MORE_WORKERS, STEP)})
    assert causes(in_vain) == ["slow-reading"]


def test_a_source_that_is_quick_alone_is_not_blamed() -> None:
    assert causes(waiting(0.5 * STEP)) == ["slow-python"]
    quick = waiting(0.5 * STEP)
    assert causes(replace(quick, reading=Reading(8, 0.1 * STEP))) == []


def test_new_shapes_are_blamed_only_where_the_source_is_quick() -> None:
    changing = replace(waiting(0.5 * STEP), shapes=tuple((f"16x{n}",) for n in range(20)))
    assert causes(changing) == ["slow-python"]
    quick = replace(changing, reading=Reading(8, 0.1 * STEP))
    assert causes(quick) == ["recompilation"]
    assert "20 shapes in 20 batches" in findings(quick)[0].evidence
    few = replace(quick, shapes=tuple((f"16x{n % 4}",) for n in range(20)))  # each is compiled once
    assert causes(few) == []


def test_a_gain_that_three_turns_in_four_do_not_confirm_is_not_reported() -> None:
    noisy = Measure(names.NO_CALLBACKS, "", 64, (0.02, 0.03, 0.05, 0.06), names.GIVEN, 64, (STEP,) * 4)
    steady = Measure(names.NO_CALLBACKS, "", 64, (0.02, 0.03, 0.03, 0.03), names.GIVEN, 64, (STEP,) * 4)
    assert causes(facts(noisy)) == []
    assert causes(facts(steady)) == ["slow-callbacks"]


def test_a_drift_in_all_turns_is_not_a_finding() -> None:
    drifting = tuple(STEP * turn for turn in (1, 2, 4, 8))
    same = Measure(names.NO_CALLBACKS, "", 64, drifting, names.GIVEN, 64, drifting)
    assert causes(facts(same)) == []


def test_the_slowest_callback_is_named() -> None:
    callbacks = Callbacks({"Logger": 0.012, "History": 0.001})
    (finding,) = findings(facts(measure(names.NO_CALLBACKS, 0.7 * STEP), callbacks=callbacks))
    assert finding.cause == "slow-callbacks"
    assert finding.lost_seconds == pytest.approx(0.3 * STEP)
    assert "Logger takes 30% of each step" in finding.what


@pytest.mark.parametrize(
    ("method_seconds", "text"),
    [
        (0.0, "12 ms of 40 ms; its methods run for 0 ms"),
        (0.011, "12 ms of 40 ms; its methods run for 11 ms"),
        (0.013, "12 ms of 40 ms; its methods run for 13 ms"),
        (0.020, "12 ms of 40 ms; its methods run for 20 ms, partly beside computing or input"),
        (0.030, "12 ms of 40 ms; its methods run for 30 ms, mostly beside computing or input"),
    ],
)
def test_a_callback_may_run_longer_than_it_costs(method_seconds: float, text: str) -> None:
    callbacks = Callbacks({"Logger": method_seconds})
    (finding,) = findings(facts(measure(names.NO_CALLBACKS, 0.7 * STEP), callbacks=callbacks))
    assert finding.evidence == text


def test_the_progress_bar_is_named_when_the_callbacks_are_quick() -> None:
    callbacks = Callbacks({"Logger": 0.0001}, progress_bar=True)
    (finding,) = findings(facts(measure(names.NO_CALLBACKS, 0.7 * STEP), callbacks=callbacks))
    assert finding.what == "the progress bar takes 30% of each step"
    assert "verbose=2" in finding.advice


def test_work_of_a_callback_at_the_end_of_an_epoch_counts() -> None:
    callbacks = Callbacks({}, {"ModelCheckpoint": 2.0})
    (finding,) = findings(facts(callbacks=callbacks, steps_per_epoch=50))
    assert "ModelCheckpoint at the end of each epoch takes 50%" in finding.what  # 2 s beside 50 steps of 40 ms
    assert causes(facts(callbacks=callbacks, steps_per_epoch=5000)) == []


@pytest.mark.parametrize(("seconds", "found"), [(0.5, True), (0.05, False)])
def test_all_reduces_are_named_if_their_share_is_large(seconds: float, found: bool) -> None:
    double = measure(names.DOUBLE_BATCH, 1.3 * STEP, rows=128)
    simulated = facts(double, devices=("cpu:0", "cpu:1"), all_reduce_seconds=seconds * STEP, gradient_bytes=1 << 26)
    assert ("all-reduce-bound" in causes(simulated)) == found
    if found:
        (finding,) = findings(simulated)  # more rows are the remedy of this, and no finding of their own
        assert finding.rows_per_second_after == pytest.approx(128 / (1.3 * STEP))


def test_sums_that_overlap_with_computing_cost_nothing() -> None:
    """One device alone is as quick: the sums overlap with the backward pass."""
    alone = measure(names.ONE_DEVICE, 0.97 * STEP, base=names.SAME_BATCH)
    assert causes(facts(alone, all_reduce_seconds=0.5 * STEP)) == []
    slower = measure(names.ONE_DEVICE, 0.5 * STEP, base=names.SAME_BATCH)
    assert causes(facts(slower, all_reduce_seconds=0.5 * STEP)) == ["all-reduce-bound"]


def test_a_batch_is_small_when_twice_the_rows_cost_little_more() -> None:
    (finding,) = findings(facts(measure(names.DOUBLE_BATCH, 1.1 * STEP, rows=128)))
    assert finding.cause == "small-batch"
    assert "batch_size=128" in finding.advice
    assert finding.rows_per_second_after == pytest.approx(128 / (1.1 * STEP))
    assert causes(facts(measure(names.DOUBLE_BATCH, 1.5 * STEP, rows=128))) == []


def test_the_cost_of_callbacks_does_not_make_a_batch_small() -> None:
    """20 ms of each step are a callback's: twice the rows take 60 ms, so a row costs a quarter less."""
    measures = measure(names.NO_CALLBACKS, 0.5 * STEP), measure(names.DOUBLE_BATCH, 1.2 * STEP, rows=128)
    assert causes(facts(*measures)) == ["slow-callbacks"]


def test_an_eager_step_is_host_bound_and_its_batch_not_small() -> None:
    measures = measure(names.COMPILED, 0.1 * STEP), measure(names.DOUBLE_BATCH, 1.05 * STEP, rows=128)
    (finding,) = findings(facts(*measures, run_eagerly=True))
    assert finding.cause == "host-bound"
    assert "run_eagerly=True" in finding.what
    assert finding.rows_per_second_after == pytest.approx(64 / (0.1 * STEP))
    assert "jit_compile=False" in findings(facts(*measures))[0].what


def test_short_steps_are_host_bound_when_many_per_call_are_quicker() -> None:
    (finding,) = findings(facts(measure(names.MANY_STEPS, 0.6 * STEP)))
    assert finding.cause == "host-bound"
    assert "steps_per_execution=16" in finding.advice


def test_shards_that_differ_are_named_with_a_batch_that_divides() -> None:
    even = measure(names.EVEN_BATCH, STEP, rows=4)
    even = replace(even, base_rows=3)
    (finding,) = findings(replace(facts(even), batch_rows=3))
    assert finding.cause == "unequal-shards"
    assert "3 rows do not divide by 2 devices" in finding.what
    assert finding.rows_per_second_after == pytest.approx(4 / STEP)


def test_a_slow_device_is_the_one_that_slows_the_others_when_it_joins() -> None:
    devices = tuple(f"gpu:{n}" for n in range(4))
    slow = facts(devices=devices, added_devices=(0.010, 0.011, 0.039, 0.040), all_reduce_seconds=0.001)
    (finding,) = findings(slow)
    assert finding.cause == "straggler"
    assert "the others wait for gpu:2" in finding.what
    assert causes(facts(devices=devices, added_devices=(0.036, 0.037, 0.039, 0.040))) == []


def test_simulated_devices_that_share_busy_cores_are_not_stragglers() -> None:
    shared = facts(devices=("cpu:0", "cpu:1"), added_devices=(0.015, 0.04), idle_cores=0.1)
    assert causes(shared) == []
    assert causes(replace(shared, idle_cores=1.2)) == ["straggler"]
    assert causes(replace(shared, added_devices=(0.025, 0.04), idle_cores=1.2)) == []


def test_devices_that_python_feeds_one_after_the_other_are_not_stragglers() -> None:
    eager = facts(measure(names.COMPILED, 0.3 * STEP), added_devices=(0.02, 0.04), run_eagerly=True)
    assert causes(eager) == ["host-bound"]


def test_advice_for_a_long_validation_names_its_frequency() -> None:
    """100 steps of 40 ms are 4 s; so is the validation: every 10th epoch, it is a tenth."""
    (finding,) = findings(facts(validation=Validation(4.0, 100, 12), steps_per_epoch=100))
    assert finding.cause == "validation"
    assert "50% of each epoch" in finding.what
    assert "validation_freq=10" in finding.advice
    assert finding.rows_per_second_after == pytest.approx(64 * 1000 / (40 + 4))
    assert causes(facts(validation=Validation(4.0, 100, 12, every=10), steps_per_epoch=100)) == []


def test_a_small_remainder_is_not_scaled_by_a_varying_base() -> None:
    """Turns of the run as given take 50 and 30 ms, the compiled step 2 ms in each."""
    given = Measure(names.GIVEN, "", 64, (0.05, 0.05, 0.05, 0.03, 0.03, 0.03, 0.05))
    compiled = Measure(names.COMPILED, "", 64, (0.002,) * 3, names.GIVEN, 64, (0.03,) * 3)
    (finding,) = findings(facts(given, compiled, run_eagerly=True))
    assert finding.rows_per_second_after == pytest.approx(64 / 0.002)


def test_whole_numbers_as_floats_are_named_when_uint8_is_quicker() -> None:
    some = facts(measure(names.UINT8, 0.6 * STEP), batch_bytes=4 << 20, as_uint8_bytes=1 << 20)
    (finding,) = findings(some)
    assert finding.cause == "copy-bound"
    assert "4.0 MiB per batch, 1.0 MiB as uint8" in finding.evidence
    assert "Rescaling" not in finding.advice
    assert "Rescaling(1 / 255)" in findings(replace(some, scaled=True))[0].advice


def test_copies_at_the_rate_of_pageable_memory_are_named_on_gpus_only() -> None:
    """120 MB in 39 of 40 ms: 3 GB/s."""
    slow = facts(put_seconds=0.039, batch_bytes=120_000_000)
    (finding,) = findings(slow)
    assert finding.cause == "copy-bound"
    assert "3.1 GB/s" in finding.evidence
    assert "pin_memory" in finding.advice
    assert causes(replace(slow, batch_bytes=1_200_000_000)) == []  # 31 GB/s: pinned, and too much
    assert causes(replace(slow, put_seconds=0.004)) == []
    assert causes(replace(slow, devices=("cpu:0", "cpu:1"))) == []


def test_precision_is_named_when_bfloat16_was_tried_and_is_quicker() -> None:
    (finding,) = findings(facts(measure(names.PRECISION, 0.5 * STEP), has_tensor_cores=True))
    assert finding.cause == "precision"
    assert "mixed_bfloat16" in finding.advice
    assert causes(facts(measure(names.PRECISION, 0.95 * STEP), has_tensor_cores=True)) == []


def test_advice_without_time_comes_last() -> None:
    some = facts(
        measure(names.NO_CALLBACKS, 0.7 * STEP),
        has_batch_norm=True,
        batch_norm="local",
        callbacks=Callbacks({"A": 0.01}),
    )
    some = replace(some, batch_rows=16)
    assert causes(some) == ["slow-callbacks", "batch-norm"]
    assert findings(some)[-1].rows_per_second_after is None
    assert causes(replace(some, batch_norm="global")) == ["slow-callbacks"]
    assert causes(replace(some, devices=("gpu:0",))) == ["slow-callbacks"]


def test_a_default_learning_rate_is_named_for_large_batches_on_several_devices() -> None:
    large = replace(facts(learning_rate=0.001, learning_rate_is_default=True, optimizer="Adam"), batch_rows=4096)
    assert causes(large) == ["learning-rate"]
    assert causes(replace(large, learning_rate_is_default=False)) == []
    assert causes(replace(large, batch_rows=512)) == []
    assert causes(replace(large, devices=("gpu:0",))) == []


def test_the_most_expensive_finding_comes_first() -> None:
    slow = waiting(0.3 * STEP, busy_cores=0.0)
    both = replace(slow, measures=slow.measures | {names.NO_CALLBACKS: measure(names.NO_CALLBACKS, 0.5 * STEP)})
    assert causes(replace(both, callbacks=Callbacks({"A": 0.02}))) == ["slow-callbacks", "slow-reading"]


def test_the_rules_load_no_framework() -> None:
    assert not {"keras", "jax", "tensorflow", "torch"} & set(sys.modules)
