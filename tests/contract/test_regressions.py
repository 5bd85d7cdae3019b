"""Faults of the frameworks' own ways to use several devices, a test for each row of the design's table of facts.

Each runs on all backends, since one backend may get the fault of another. A fault of only one framework names it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.contract import probes
from tests.contract.cases import Case, run
from tests.contract.compare import TOLERANCES, compare
from tests.contract.oracle import Contract
from tests.harness.client import NUM_DEVICES, Worker, Workers
from tests.harness.installed import keras_is_older_than

pytestmark = pytest.mark.in_turn(1)  # each commit runs all, on one backend


def test_a_first_batch_that_does_not_divide_trains(contract: Contract) -> None:
    """JAX `DataParallel`: `IndivisibleError`."""
    contract.holds(Case(rows=13, batch_size=13, validation="data"), 4)


def test_a_failed_fit_leaves_the_weights_of_the_last_finished_step(workers: Workers) -> None:
    """JAX: every variable of the model is None."""
    failed = workers.abreast.run(probes.weights_after_a_failed_fit, devices=4)
    finished = workers.plain.run(probes.weights_after_two_steps, devices=0)
    assert compare(finished, failed, TOLERANCES["float32"]).verdict == "equal"


def test_98_rows_with_batch_normalization_on_4_devices_stay_finite(contract: Contract) -> None:
    """TensorFlow: an empty replica's moments make moving statistics, then weights, NaN while epoch 1 reports a number."""
    contract.holds(Case(rows=98, batch_size=32, model="conv_norm"), 4)


@pytest.mark.in_turn
def test_a_short_last_batch_counts_by_its_rows(contract: Contract) -> None:
    """TensorFlow: weights off by 5.6e-3 with 98 rows on 4 devices, by 1.1e-2 with 97 on 2."""
    contract.holds(Case(rows=98, batch_size=32), 4)
    contract.holds(Case(rows=97, batch_size=32), 2)


def test_a_share_of_the_rows_is_not_rounded_to_float32(contract: Contract) -> None:
    """TensorFlow: `cast` of a Python number, as 4/7, to float64 goes through float32. The loss was off by 3e-9."""
    if keras_is_older_than("3.15"):
        pytest.skip("before Keras 3.15, a regularizer stays in float32, which TensorFlow refuses")
    for rows, batch_size in ((7, 7), (3, 4)):  # in a graph, a number of Python, and a tensor
        case = Case(rows=rows, batch_size=batch_size, model="regularized", policy="float64", script="train", epochs=1)
        contract.holds(case, 2)


def test_32_rows_train_on_3_devices(contract: Contract) -> None:
    """TensorFlow: `AddN` of unequal shapes, as Keras averages the replicas' first batches to build the model."""
    contract.holds(Case(rows=32, batch_size=32, model="unbuilt"), 3)


def test_batch_normalization_takes_the_statistics_of_the_global_batch(contract: Contract) -> None:
    """TensorFlow: statistics per replica, weights off by 9.3e-3."""
    contract.holds(Case(rows=32, batch_size=16, model="conv_norm"), 4)


def test_gradients_accumulate_on_several_devices(contract: Contract) -> None:
    """TensorFlow: raises under a strategy."""
    contract.holds(Case(optimizer="accumulate", rows=40, epochs=1), 2)


def test_jit_compile_is_taken_or_announced_on_several_devices(contract: Contract) -> None:
    """TensorFlow: raises under a strategy on CPU."""
    if contract.workers.backend == "torch":
        pytest.skip("torch.compile takes minutes; the catalogue has it with -m full")
    contract.holds(Case(jit_compile=True, script="train"), 2)


@pytest.mark.in_turn
def test_one_process_trains_on_several_numbers_of_devices_in_turn(workers: Workers) -> None:
    """TensorFlow: a second strategy with another number of devices raises. abreast starts PyTorch's workers again."""
    case = Case(script="train", rows=12)
    plain = workers.plain.run(run, case=case)
    process = Worker(workers.backend, NUM_DEVICES)  # whose first placement is the smallest
    for devices in (2, 4, 3):
        results = process.run(run, case=case, devices=devices, timeout_seconds=100)
        assert compare(plain, results, TOLERANCES["float32"]).verdict == "equal"
    assert process.close() == []


@pytest.mark.in_turn
def test_a_process_changes_from_all_devices_to_fewer_and_back(workers: Workers) -> None:
    """A former fault on PyTorch: rank 2 knew one process group fewer than rank 0, and named the next one differently."""
    case = Case(script="train", rows=12)
    plain = workers.plain.run(run, case=case)
    process = Worker(workers.backend, NUM_DEVICES)
    for devices in (4, 2, 3, 4):
        results = process.run(run, case=case, devices=devices, timeout_seconds=100)
        assert compare(plain, results, TOLERANCES["float32"]).verdict == "equal"
    assert process.close() == []


def test_all_devices_train_one_model(workers: Workers) -> None:
    """PyTorch under torchrun with Keras 3.15: ranks train different models, without an error."""
    gradients = workers.abreast.run(probes.weights_with_and_without_the_last_rows, devices=4)
    assert gradients["difference"] > 1e-3  # the rows of the last device move the weights that the caller sees


def test_a_second_fit_after_averaged_weights_trains(workers: Workers) -> None:
    """JAX: "Attempt to donate the same buffer twice", as weights and their averages are one array after the first."""
    one, four = (workers.abreast.run(probes.weights_after_two_averaging_fits, devices=devices) for devices in (1, 4))
    assert compare(one, four, TOLERANCES["float32"]).verdict == "equal"


def test_two_variables_may_begin_as_one_array(workers: Workers) -> None:
    """JAX: the same, where the script assigns one variable to another before the first step."""
    one, four = (workers.abreast.run(probes.weights_that_begin_alike, devices=devices) for devices in (1, 4))
    assert compare(one, four, TOLERANCES["float32"]).verdict == "equal"


def test_predict_gives_all_rows_in_order(contract: Contract) -> None:
    """PyTorch under Keras 3.16's DDP: `predict` returns the rows of one rank."""
    contract.holds(Case(script="evaluate_and_predict_first", rows=23, batch_size=9, epochs=1), 4)


def test_a_metric_that_takes_a_maximum_is_not_summed(contract: Contract) -> None:
    """PyTorch under Keras 3.16's DDP: all metric variables are summed over ranks."""
    contract.holds(Case(loss="mse", metrics=("largest", "batches"), epochs=1), 4)


@pytest.mark.parametrize("command", ["import abreast", "from abreast.device_list import list_devices; list_devices()"])
def test_importing_abreast_and_listing_devices_load_no_framework(command: str) -> None:
    """All: listing devices starts the framework, and later configuration fails."""
    code = f"{command}\nimport sys\nassert not {{'jax', 'tensorflow', 'torch', 'keras'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_same_job_gives_the_same_numbers_again(workers: Workers) -> None:
    """A placement does not affect the next job."""
    case = Case(script="train", model="conv_norm", epochs=1)
    first, second = (workers.abreast.run(run, case=case, devices=3) for _ in range(2))
    assert "error" not in first, first
    assert {name: (first[name], second[name]) for name in first if (first[name] != second[name]).any()} == {}
