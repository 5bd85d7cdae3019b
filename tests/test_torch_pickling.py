"""A PyTorch model sent to another process predicts and trains on as the original does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.client import ROOT

pytestmark = pytest.mark.torch

_SENDER = ROOT / "tests" / "torch_sender.py"


def _run(name: str, folder: Path) -> None:
    environment = os.environ | {
        "KERAS_BACKEND": "torch",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, str(_SENDER), name, str(folder)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert f"passed {name}\n" in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "model",
    [
        "momentum",
        pytest.param("adam", marks=pytest.mark.full),
        pytest.param("adamw_clipped", marks=pytest.mark.full),
        pytest.param("average", marks=pytest.mark.full),
        "accumulation",
        "loss_scale",
        pytest.param("loss_object", marks=pytest.mark.full),
        pytest.param("functional", marks=pytest.mark.full),
        "subclassed",
        "closures",
        pytest.param("recurrent", marks=pytest.mark.full),
        "attention",
        pytest.param("seeded_dropout", marks=pytest.mark.full),
        "very_deep",
        pytest.param("mixed_bfloat16", marks=pytest.mark.full),
        "torch_module",
    ],
)
def test_a_half_trained_model_goes_on_elsewhere_as_here(model: str, tmp_path: Path) -> None:
    _run(model, tmp_path)


def test_what_was_shared_stays_shared_and_what_was_apart_apart(tmp_path: Path) -> None:
    _run("sharing_and_identities", tmp_path)


def test_what_cannot_be_sent_is_named_with_its_path(tmp_path: Path) -> None:
    _run("unpicklable", tmp_path)
