"""What is on the devices: shards and no more, local statistics where asked for, other random numbers on each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contract import probes
from tests.contract.cases import Case
from tests.contract.oracle import Contract
from tests.harness.client import Workers

# Rows on each device of a batch of 8, and of one of 2; where a device has none, it holds a stand-in, which does not count.
SHARES = {1: ((8,), (2,)), 3: ((3, 3, 2), (1, 1, 1)), 4: ((2, 2, 2, 2), (1, 1, 1, 1))}
PADDED = SHARES | {3: ((3, 3, 3), (1, 1, 1))}  # JAX's arrays have the same number of rows on each device


@pytest.mark.in_turn
@pytest.mark.parametrize("devices", SHARES)
def test_each_device_gets_its_shard_and_no_more(workers: Workers, devices: int) -> None:
    """26 rows by 8: three batches of 8 and one of 2. Rows of 4 x 4 x 3 `uint8` travel as 48 bytes: no wider type."""
    of_8, of_2 = (PADDED if workers.backend == "jax" else SHARES)[devices]
    expected = [
        [(str(device), rows, "uint8", 48 * rows) for device, rows in enumerate(counts)]
        for counts in (of_8, of_8, of_8, of_2)
    ]
    assert workers.abreast.run(probes.shards_staged_by_fit, devices=devices) == expected


@pytest.mark.in_turn
@pytest.mark.parametrize(("devices", "rows"), [(2, 8), (4, 9), (4, 2)])
def test_local_batch_normalization_takes_the_statistics_of_each_shard(
    workers: Workers, devices: int, rows: int
) -> None:
    result = workers.abreast.run(probes.local_batch_norm, devices=devices, rows=rows)
    expected = one_step_by_hand(result, devices)
    for name, value in expected.items():
        np.testing.assert_allclose(result["after"][name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_the_step_by_hand_is_that_of_plain_keras_on_one_device(workers: Workers) -> None:
    result = workers.plain.run(probes.local_batch_norm, devices=0, rows=9)
    for name, value in one_step_by_hand(result, 1).items():
        np.testing.assert_allclose(result["after"][name], value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.in_turn
def test_local_batch_normalization_is_never_nan(contract: Contract) -> None:
    """Other numbers than one device, and all of them finite, with fewer rows than devices too."""
    case = Case(model="conv_norm", batch_norm="local", rows=26, validation="data")
    for _, comparison in contract.comparisons(case, (4,)):
        assert comparison.verdict == "different"
        assert np.isfinite(comparison.difference), comparison


def test_replicas_draw_other_random_numbers(workers: Workers) -> None:
    kept = workers.abreast.run(probes.draws_of_dropout, devices=4)
    assert set(np.unique(kept)) <= {0.0, 2.0}
    assert len({tuple(row) for row in kept}) == 4, kept


def test_a_layers_new_dtype_policy_is_that_of_every_replica(workers: Workers) -> None:
    """Numbers of bfloat16 have 16 bits that a float32 sets to 0. PyTorch: the ranks kept the model of before."""
    before, after = (predicted.view("uint32") & 0xFFFF for predicted in workers.abreast.run(probes.new_dtype_policy))
    assert before.any(axis=1).all()
    assert not after.any(axis=1).any(), after


def one_step_by_hand(job: dict[str, Any], devices: int) -> dict[str, Any]:
    """Weights after one step of SGD(0.125) on the mean squared error, with statistics per shard."""
    before, total = job["before"], len(job["x"])
    sizes = [total // devices + (index < total % devices) for index in range(devices)]
    parts = np.split(np.arange(total), np.cumsum(sizes)[:-1])
    gradients = {name: np.zeros_like(before[name]) for name in ("gamma", "beta", "kernel", "bias")}
    mean, variance = np.zeros(3), np.zeros(3)
    for rows in parts:
        if len(rows) == 0:
            continue
        x, y = job["x"][rows], job["y"][rows]
        mean += x.mean(0) * len(rows) / total
        variance += x.var(0) * len(rows) / total
        normal = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)
        hidden = normal * before["gamma"] + before["beta"]
        error = 2 * (hidden @ before["kernel"] + before["bias"] - y) / total
        gradients["kernel"] += hidden.T @ error
        gradients["bias"] += error.sum(0)
        gradients["gamma"] += ((error @ before["kernel"].T) * normal).sum(0)
        gradients["beta"] += (error @ before["kernel"].T).sum(0)
    after = {name: before[name] - 0.125 * gradient for name, gradient in gradients.items()}
    after["moving_mean"] = 0.9 * before["moving_mean"] + 0.1 * mean
    after["moving_variance"] = 0.9 * before["moving_variance"] + 0.1 * variance
    return after
