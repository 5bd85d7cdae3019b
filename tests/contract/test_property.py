"""Random combinations: a job that plain Keras can run gives the same numbers on any number of devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.cases import Case
from tests.contract.catalogue import BINARY, CLASSES, ONE_HOT, OWN, VALUES
from tests.contract.oracle import Contract

# Losses by what their targets are, and the metrics that know such targets.
LOSSES = {
    "binary": ("binary_crossentropy", "binary_focal_crossentropy", "hinge", "squared_hinge"),
    "classes": ("sparse_categorical_crossentropy", "categorical_generalized"),
    "onehot": ("categorical_crossentropy", "categorical_focal_crossentropy", "dice", "kl_divergence", "tversky"),
    "values": ("mse", "mae", "huber", "log_cosh", "cosine_similarity", "own", "per_row", "of_batch", "mixing_rows"),
}
METRICS = {"binary": BINARY, "classes": CLASSES, "onehot": ONE_HOT, "values": (*VALUES, *OWN)}
MODELS = ("dense", "conv_norm", "attention", "regularized", "lstm_mask")
# Lion takes signs of gradients, so the rounding of a zero decides; the others are continuous.
OPTIMIZERS = (
    "sgd",
    "sgd_nesterov",
    "adamw_global_clipnorm",
    "sgd_clipvalue",
    "ema",
    "accumulate",
    "loss_scale",
    "schedule",
)


@st.composite
def jobs(draw: Any) -> tuple[Case, int]:
    target = draw(st.sampled_from(sorted(LOSSES)))
    metrics = st.lists(st.sampled_from(METRICS[target]), max_size=2, unique=True).map(tuple)
    loss = draw(st.sampled_from(LOSSES[target]))
    reductions = ("sum_over_batch_size", "sum", "mean", "mean_with_sample_weight")
    # A metric of one value for the batch cannot be weighted by rows: Keras raises.
    weighted = metrics.map(lambda names: tuple(name for name in names if name != "spread"))
    case = Case(
        policy="float64",
        script=draw(st.sampled_from(("train", "train", "fit"))),
        model=draw(st.sampled_from(MODELS)),
        loss=loss,
        reduction=draw(st.sampled_from(reductions)),
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        metrics=draw(metrics),
        weighted_metrics=draw(weighted),
        rows=draw(st.integers(1, 20)),
        batch_size=draw(st.integers(1, 9)),
        epochs=draw(st.integers(1, 2)),
        sample_weight=draw(st.sampled_from(("", "random", "zeros in front"))),
        shuffle=draw(st.booleans()),
        validation=draw(st.sampled_from(("", "", "split", "data"))),
        entry=draw(st.sampled_from(("parallelize", "scope", "parallelize first"))),
    )
    if case.model == "attention" and case.optimizer == "adamw_global_clipnorm":
        # Adam divides the gradient of the key's bias, which is zero but for rounding, by its own size.
        case = replace(case, optimizer="sgd_global_clipnorm")
    return case, draw(st.integers(2, 4))


def _check(contract: Contract, job: tuple[Case, int]) -> None:
    case, devices = job
    contract.holds(case, devices, refusal=None)


_CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.in_turn
@pytest.mark.timeout(600)
def test_a_job_gives_the_same_numbers_on_any_number_of_devices(contract: Contract) -> None:
    @settings(max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=_CHECKS)
    @given(jobs())
    def check(job: tuple[Case, int]) -> None:
        _check(contract, job)

    check()


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_many_jobs_give_the_same_numbers_on_any_number_of_devices(contract: Contract) -> None:
    @settings(max_examples=200, deadline=None, print_blob=True, suppress_health_check=_CHECKS)
    @given(jobs())
    def check(job: tuple[Case, int]) -> None:
        _check(contract, job)

    check()
