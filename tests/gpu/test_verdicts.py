"""The faults that each part of `make gpu` reports, on planted facts; and the existence of the things that it names."""

from __future__ import annotations

import itertools
import math
import re
from types import GeneratorType
from typing import Any

import numpy as np
import pytest

from abreast.device_list import Device
from abreast.machine import gpu_copies
from abreast.machine.machine import _all_reduce
from benchmarks.gpu.parts import (
    bench,
    check,
    checkpoints,
    contract,
    decoding,
    doctor,
    feeding,
    launched,
    machine,
    overhead,
    staging,
    timeline,
    torture,
    trace,
)
from benchmarks.gpu.place import Place
from tests.contract.catalogue import CASES
from tests.contract.compare import Comparison
from tests.harness.client import ROOT
from tests.machine.fake_cuda import Clock, FakeCuda
from tests.timeline.traced import num_on_gpus

# Their time begins when this file is imported, and other tests may run for long before these.
ON_GPU = Place("jax", 1, simulated=False, seconds=math.inf)
ON_CPUS = Place("jax", 2, simulated=True, seconds=math.inf)


def test_every_job_and_every_plant_exists() -> None:
    assert [name for name in contract.NAMES if name not in CASES] == []
    plants = re.findall(r"^def (\w+)\(devices", (ROOT / "tests/doctor/plants.py").read_text(), re.MULTILINE)
    assert [plant.name for plant in doctor.PLANTS if plant.name not in plants] == []


def test_jobs_that_differ_fail_unless_plain_keras_differs_from_itself_too() -> None:
    found = {
        "a": Comparison("equal", 1e-7, "weights/0"),
        "b": Comparison("different", 3e-4, "weights/1"),
        "c": Comparison("different", 3e-4, "weights/1"),
        "d": Comparison("failed", where="ValueError: no"),
        "e": Comparison("refused", where="NotImplementedError"),
    }
    verdict = contract.verdict(found, {"b": 2e-4, "c": 1e-4}, ["f"])
    assert verdict.figure == "3 of 5 jobs equal, difference up to 3e-04"
    assert verdict.problems == ("c: different, 3.0e-04 at weights/1", "d: failed, 0.0e+00 at ValueError: no")
    assert verdict.absent == ("no time for the jobs f",)
    assert contract.verdict({}, {}, []).problems == ("no job was compared",)


def test_a_job_that_only_abreast_refuses_has_failed() -> None:
    refusal = {"error": ["ModelError", "AbreastError"], "message": "no", "steps": 0, "traceback": ""}
    plain = {"weights/0": np.ones(2)}
    assert contract.compared(ON_GPU, "1 row", plain, refusal).verdict == "failed"
    assert contract.compared(ON_GPU, "1 row", refusal, refusal).verdict == "refused"


def test_the_tolerance_of_a_gpu_is_ten_times_that_of_the_cpu() -> None:
    plain, other = {"weights/0": np.ones(2)}, {"weights/0": np.array([1.0, 1 + 5e-5])}
    assert contract.compared(ON_GPU, "1 row", plain, other).verdict == "equal"
    assert contract.compared(ON_CPUS, "1 row", plain, other).verdict == "different"


def test_a_step_twice_as_long_as_the_slowest_rivals_is_a_fault() -> None:
    rivals = {"native": [1.0, 1.2], "keras": [2.0, 2.1]}
    assert overhead.problems({"mlp": {**rivals, "abreast": [3.9, 9.0]}}) == []
    (found,) = overhead.problems({"mlp": {**rivals, "abreast": [4.1, 9.0]}})
    assert found == "mlp: 4100.00 ms a step, the slowest rival 2000.00"


def test_a_source_that_is_not_hidden_is_a_fault() -> None:
    assert feeding.problems(1.1) == []
    assert feeding.problems(1.9) == ["1.90 times the slower of source and step"]


def test_staging_that_changes_weights_or_takes_longer_is_a_fault() -> None:
    seconds = {"keras": [2.0], "prefetch=0": [2.0], "prefetch=2": [1.0]}
    keras, one = ("keras", "one array"), ("prefetch=2", "one array")
    assert staging.verdict(seconds, {keras: 0.0, one: 1e-6}, ON_GPU).problems == ()
    assert staging.verdict(seconds, {keras: 0.0, one: 1e-3}, ON_GPU).problems == (
        "prefetch=2, one array: weights differ from plain Keras's by 1.0e-03",
    )
    assert staging.verdict(seconds, {one: float("nan")}, ON_GPU).problems != ()
    slower = seconds | {"prefetch=2": [3.0]}
    fault = "a step takes 1.50 times as long with batches ahead"
    assert staging.verdict(slower, {one: 0.0}, ON_GPU).problems == (fault,)
    assert staging.verdict(slower, {one: 0.0}, ON_CPUS).problems == ()
    assert staging.difference([np.ones(2), np.full(1, 4.0)], [np.ones(2), np.full(1, 5.0)]) == pytest.approx(0.2)


def test_errors_that_plain_keras_makes_too_are_reported_and_not_judged() -> None:
    """This happens on JAX, where a step still computes when a source writes its next batch over the rows of that step."""
    seconds = {"keras": [2.0], "prefetch=0": [2.0], "prefetch=2": [1.0]}
    differences = {("keras", "one array"): 0.5, ("prefetch=2", "one array"): 0.01, ("prefetch=2", "new arrays"): 0.02}
    verdict = staging.verdict(seconds, differences, ON_GPU)
    assert verdict.absent == ("one array: plain Keras is wrong, too: keras by 5.0e-01, prefetch=2 by 1.0e-02",)
    assert verdict.problems == ("prefetch=2, new arrays: weights differ from plain Keras's by 2.0e-02",)


def test_the_batches_of_one_array_differ() -> None:
    """Otherwise weights would not show a row of the wrong batch."""
    batches = staging.one_array()
    (x, y), seen = next(batches), []
    for _ in range(3):
        seen.append((float(x.sum()), float(y.sum())))
        again, _ = next(batches)
        assert again is x
    assert len({x for x, _ in seen}) == len({y for _, y in seen}) == 3


def test_batches_in_turn_reuse_no_array_that_may_wait() -> None:
    """Otherwise abreast copies each batch, and the part times the copies."""
    source = staging.in_turn()
    assert isinstance(source, GeneratorType)  # Keras refuses other iterators
    batches = list(itertools.islice(source, 9))
    assert len({id(array) for batch in batches[:8] for array in batch}) == 16
    assert batches[8] is batches[0]


def test_a_check_that_is_not_equal_is_a_fault() -> None:
    said = "equal: 20 steps, 522 arrays of 26 moments on 1 device, jax are what plain Keras gives on one\nlargest"
    good = check.verdict(0, said)
    assert (good.figure, good.problems) == ("equal: 20 steps, 522 arrays", ())
    bad = check.verdict(1, "differs: first at fit of sequential, step 5 (1 device, jax)")
    assert bad.problems == ("exit code 1: differs: first at fit of sequential, step 5 (1 device, jax)",)
    assert check.verdict(2, "").problems == ("exit code 2: nothing was printed",)


def test_launched_processes_with_other_weights_or_without_an_end_are_faults() -> None:
    good = launched.verdict([0, 0, 0], 2e-4)
    assert (good.figure, good.problems) == ("2 processes, weights differ by 2e-04", ())
    assert launched.verdict([0, 0], 2e-2).problems == ("weights differ by 2.0e-02 of the largest",)
    assert launched.verdict([0, 0], float("nan")).problems != ()
    assert launched.verdict([0, 1], None).problems == ("the processes ended with 0, 1",)


def test_launched_processes_use_deterministic_kernels_on_gpus() -> None:
    assert "--xla_gpu_deterministic_ops=true" in launched.environment(ON_GPU)["XLA_FLAGS"]
    assert launched.environment(ON_CPUS) == {}


def tortured(recovered: int, *problems: str) -> dict[str, Any]:
    rows = {"none": (1, 1), "kill": (2, recovered), "stop": (1, 1), "end": (1, 1)}
    faults = {name: {"fired": fired, "recovered": good} for name, (fired, good) in rows.items()}
    return {"faults": faults, "problems": list(problems)}


def test_faults_that_a_training_does_not_survive_are_faults() -> None:
    good = torture.verdict(0, tortured(2))
    assert (good.figure, good.problems) == ("3 of 3 faults recovered", ())
    bad = torture.verdict(1, tortured(1, "round 1, its end: other weights"))
    assert (bad.figure, bad.problems) == ("2 of 3 faults recovered", ("round 1, its end: other weights",))
    assert torture.verdict(1, tortured(2)).problems == ("exit code 1",)
    assert torture.verdict(2, {}).problems == ("exit code 2, and no JSON",)


def saved(abreast: float) -> dict[str, Any]:
    others = {"BackupAndRestore": [2.0, 1.0, 3.0], "model.save": [1.7, 1.4, 1.5], "write": [0.5], "restore": [0.5]}
    return {"abreast": [9.0, abreast, 0.0], **others, "first_seconds": 1.0}


def test_checkpoints_that_take_longer_than_keras_are_faults_on_gpus() -> None:
    between = {"ratio": 1.01, "control": 1.0}
    good = checkpoints.verdict(saved(1.0), between, 100, ON_GPU)
    assert good.figure == "100 million: 1.00 s, BackupAndRestore 2.00, model.save 1.50; between 1.010x"
    assert good.problems == ()
    assert checkpoints.verdict(saved(1.6), between, 100, ON_GPU).problems == (
        "a checkpoint takes longer than model.save",
        "the training waits for 1.6 s",
    )
    assert checkpoints.verdict(saved(1.6), between, 100, ON_CPUS).problems == ()


def timeline_facts(**changed: Any) -> dict[str, Any]:
    facts = {"largest_gap_seconds": 1e-6, "devices": ["gpu:0"], "compute_seconds": {"gpu:0": 1e-3}}
    return facts | {"busy": {"gpu:0": 0.5, "cpu": 0.1}, "cost": 1.01} | changed


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"largest_gap_seconds": 2e-3}, "the parts of a step miss its time by 2.00 ms"),
        ({"devices": ["cpu:0"]}, "it names cpu:0, not gpu:0"),
        ({"compute_seconds": {"gpu:0": 0.0}}, "gpu:0 did not compute"),
        ({"busy": {"gpu:0": None}}, "no utilisation of gpu:0 was sampled"),
        ({"cost": 1.6}, "a step takes 1.60 times as long with it"),
    ],
)
def test_errors_of_a_timeline_are_faults(changed: dict[str, Any], fault: str) -> None:
    assert timeline.problems(timeline_facts(), ON_GPU) == []
    assert timeline.problems(timeline_facts(**changed), ON_GPU) == [fault]


def test_a_trace_without_the_work_of_the_gpu_is_a_fault() -> None:
    assert trace.problems({"steps": [4, 5, 6], "device_events": 9}, ON_GPU) == []
    assert trace.problems({"steps": [4, 5], "device_events": 0}, ON_GPU) == [
        "steps [4, 5] are traced, not [4, 5, 6]",
        "nothing that a GPU did is in the trace",
    ]


def test_kernels_are_counted_in_a_trace_by_xla() -> None:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "/host:CPU"}},
        *({"ph": "X", "name": "fusion", "pid": pid} for pid in (1, 1, 7)),
    ]
    assert num_on_gpus(events) == 2


def test_copies_that_were_not_measured_or_are_slow_are_faults() -> None:
    gpu = Device("gpu:0", "gpu", 0, "Some GPU")
    (one_gpu,), (no_backend,) = (_all_reduce([gpu], name, None)["notes"] for name in ("jax", None))
    facts: dict[str, Any] = {"gpus": [{}], "notes": [one_gpu, no_backend]}
    there = {"pinned": [5e10], "pageable": [9e9]}
    good = facts | {"host_to_device_bytes_per_second": there}
    assert machine.problems(good, ON_GPU) == []
    assert machine.figure(good) == "pinned 50.0 GB/s, pageable 9.0 GB/s"
    assert "a second GPU: links, copies between GPUs, all-reduce" in machine.absent(good, ON_GPU)
    slow = facts | {"host_to_device_bytes_per_second": there | {"pinned": [2e8]}}
    assert machine.problems(slow, ON_GPU) == ["pinned memory gives 200000000 bytes/s"]
    unmeasured = facts | {"notes": ["copies of GPUs were not measured: no CUDA driver: x"]}
    assert len(machine.problems(unmeasured, ON_GPU)) == 3
    assert machine.problems({"gpus": [], "notes": []}, ON_CPUS) == ["all-reduce was not measured"]
    no_framework = Place("", 2, simulated=True, seconds=60.0)
    assert machine.problems({"gpus": [], "notes": []}, no_framework) == []
    assert "a framework: all-reduce" in machine.absent({"gpus": [], "notes": []}, no_framework)


def test_copies_measured_with_a_driver_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(gpu_copies, "time", clock)
    gpus = [Device("gpu:0", "gpu", 0, "Some GPU", 2**34, "GPU-0", "0000:00:00.0")]
    for pinned, faults in ((12e9, 0), (0.5e9, 1)):
        rates = {"pageable": 3e9, "pinned": pinned, "peer": 20e9, "staged": 8e9, "root": 16e9}
        facts = {"gpus": [{}], "notes": []} | gpu_copies.measure(gpus, [], FakeCuda(clock, rates))
        assert len(machine.problems(facts, ON_GPU)) == faults


def line(side: str, median: float) -> dict[str, Any]:
    return {"case": {"side": side, "rows": 64}, "median": median}


def test_a_side_that_was_not_measured_is_a_fault() -> None:
    lines = [line("abreast", 0.02), line("native", 0.01), line("keras", 0.04)]
    good = bench.verdict(lines, 0, "", ["index.html"], ON_GPU)
    assert (good.figure, good.problems) == ("3,200 rows/s, 2.00x native, 0.50x keras", ())
    bad = bench.verdict(lines[:1], 1, "abreast: failed: native: no", [], ON_GPU)
    assert bad.problems == (
        "no measurement of native",
        "no measurement of keras",
        "exit code 1: abreast: failed: native: no",
        "no page was written",
    )
    several = Place("torch", 2, simulated=False, seconds=60.0)  # where Keras has no way of its own
    assert bench.verdict(lines[:2], 0, "", ["index.html"], several).problems == ()


def diagnosis(*causes: str) -> dict[str, Any]:
    return {"findings": [{"cause": cause} for cause in causes], "seconds": 7.0}


def test_a_planted_cause_that_is_not_named_first_is_a_fault() -> None:
    found = {"reading": diagnosis("slow-reading", "gil"), "float32_layers": diagnosis("small-batch", "precision")}
    verdict = doctor.verdict(found, ["callback"], ON_GPU)
    assert verdict.figure == "slow-reading 7 s, small-batch 7 s"
    assert verdict.problems == ("float32_layers: small-batch, precision is found, not precision",)
    assert verdict.absent == ("no time for the causes callback",)
    assert doctor.verdict({"callback": diagnosis()}, [], ON_GPU).problems == (
        "callback: nothing is found, not slow-callbacks",
    )


def test_a_cause_that_is_missed_once_is_tried_again_while_there_is_time() -> None:
    tries = [diagnosis("gil"), diagnosis("slow-reading")]
    assert doctor.diagnosed(lambda: tries.pop(0), "slow-reading", ON_GPU)["findings"][0]["cause"] == "slow-reading"
    tries = [diagnosis("gil"), diagnosis("slow-reading")]
    late = Place("jax", 1, simulated=False, seconds=5.0)
    assert doctor.diagnosed(lambda: tries.pop(0), "slow-reading", late)["findings"][0]["cause"] == "gil"


def test_causes_of_gpus_only_are_not_planted_on_the_cpu() -> None:
    assert [plant.name for plant in doctor.plants_for(ON_CPUS)] == ["reading", "callback"]
    assert doctor.verdict({}, [], ON_CPUS).absent == ("a GPU: the causes precision, copy-bound",)


def test_pixels_of_other_colours_and_a_choice_that_measured_nothing_are_faults() -> None:
    said = "abreast: x is decoded by the GPU: 9 images/s on the GPU, 4 on the CPU"
    good: dict[str, Any] = {"differences": {"whole": (0.4, 3)}, "auto": "gpu", "said": said, "loss": 2.3}
    assert decoding.problems(good) == []
    assert decoding.problems(good | {"loss": None}) == []
    bad = {"differences": {"whole": (4.0, 90)}, "auto": "cpu", "said": "takes the CPU: no", "loss": float("nan")}
    assert decoding.problems(bad) == [
        "whole: pixels differ by 4.0 in the mean of the worst image, 90 at most",
        'decoder="auto" measured nothing: takes the CPU: no',
        "a fit ended with a loss of nan",
    ]
