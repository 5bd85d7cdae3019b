"""A PyTorch model sent to another process predicts and trains on as the original does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.client import ROOT

pytestmark = pytest.mark.torch

_SENDER = ROOT / "tests" / "torch_sender.py"


@pytest.fixture(scope="module")
def sender() -> Iterator[subprocess.Popen[str]]:
    """One process for all models: it and its receiver take longer to start than to train."""
    environment = os.environ | {
        "KERAS_BACKEND": "torch",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, str(_SENDER)], env=environment, stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _run(sender: subprocess.Popen[str], name: str, folder: Path) -> None:
    assert sender.stdin is not None and sender.stdout is not None
    sender.stdin.write(f"{name} {folder}\n")
    sender.stdin.flush()
    answer = json.loads(sender.stdout.readline())
    assert answer == "passed", answer


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "model",
    [
        "momentum",
        "adam",
        "adamw_clipped",
        "average",
        "accumulation",
        "loss_scale",
        "loss_object",
        "functional",
        "subclassed",
        "closures",
        "recurrent",
        "attention",
        "seeded_dropout",
        "very_deep",
        "mixed_bfloat16",
        "torch_module",
    ],
)
def test_a_half_trained_model_goes_on_elsewhere_as_here(
    sender: subprocess.Popen[str], model: str, tmp_path: Path
) -> None:
    _run(sender, model, tmp_path)


def test_what_was_shared_stays_shared_and_what_was_apart_apart(sender: subprocess.Popen[str], tmp_path: Path) -> None:
    _run(sender, "sharing_and_identities", tmp_path)


def test_what_cannot_be_sent_is_named_with_its_path(sender: subprocess.Popen[str], tmp_path: Path) -> None:
    _run(sender, "unpicklable", tmp_path)


def test_what_cannot_be_made_again_is_an_error_with_a_hint(sender: subprocess.Popen[str], tmp_path: Path) -> None:
    _run(sender, "unreadable", tmp_path)
