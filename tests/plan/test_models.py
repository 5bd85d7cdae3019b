"""Shapes of models, formats of gradients, and the roofline: numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from abreast.errors import DataError
from abreast.plan.gradients import parse_format
from abreast.plan.machine import find_device
from abreast.plan.models import find_model, model_of, models
from abreast.plan.roofline import roofline


def test_every_model_adds_up_and_has_a_source() -> None:
    for model in models().values():
        assert model.source
        assert model.num_tensors >= 1
        if model.tensor_sizes:
            assert len(model.tensor_sizes) == model.num_tensors
            assert sum(model.tensor_sizes) == model.num_parameters


def test_a_model_is_found_in_other_spellings() -> None:
    assert find_model("ResNet-50") is find_model("resnet50") is find_model("resnet50_v1")
    assert find_model("InceptionV3").num_tensors == 190


def test_an_unknown_model_gets_the_nearest_names() -> None:
    with pytest.raises(DataError, match="no model is called 'resnet5'") as caught:
        find_model("resnet5")
    assert "resnet50" in str(caught.value) and "--parameters" in str(caught.value)


@pytest.mark.parametrize("count", [0, -1, float("nan"), 1e15])
def test_an_impossible_parameter_count_is_refused(count: float) -> None:
    with pytest.raises(DataError, match="parameters"):
        model_of(count)


@pytest.mark.parametrize(
    ("name", "sent"),
    [("fp32", 4e6), ("bf16", 2e6), ("1-bit", 125_008), ("top-k:0.01", 80_000), ("powersgd:4", 32_000)],
)
def test_a_format_sends_so_many_bytes_of_a_million_values(name: str, sent: float) -> None:
    assert parse_format(name).wire_bytes(1e6) == pytest.approx(sent)


@pytest.mark.parametrize("name", ["fp8", "top-k:2", "top-k:x", "powersgd:0", "bf16:2", ""])
def test_a_format_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="gradients in"):
        parse_format(name)


def test_the_roofline_reports_its_error() -> None:
    step = roofline(find_model("resnet50"), find_device("V100"), 64, "fp32")
    # 64 rows x 4.1e9 multiplications x 2 x 3 passes at half of 15.7e12, and the update.
    assert step.seconds == pytest.approx(64 * 4.1e9 * 6 / 7.85e12, rel=0.01)
    assert step.factor == 2 and "factor 2" in step.source
    with pytest.raises(DataError, match="no operation count ships"):
        roofline(find_model("tacotron2"), find_device("V100"), 64, "fp32")
