"""What a user may ask of checkpoints: a folder, how often, how many."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from abreast.checkpoints.policy import Every, Policy, as_default, default, every_of
from abreast.errors import CheckpointError


@pytest.mark.parametrize(
    ("value", "every"),
    [
        (500, Every(steps=500)),
        ("500", Every(steps=500)),
        ("500 steps", Every(steps=500)),
        ("1 step", Every(steps=1)),
        ("30s", Every(seconds=30)),
        ("90 seconds", Every(seconds=90)),
        ("0.5s", Every(seconds=0.5)),
        ("10m", Every(seconds=600)),
        ("10min", Every(seconds=600)),
        ("2 minutes", Every(seconds=120)),
        ("1h", Every(seconds=3600)),
        ("1.5 hours", Every(seconds=5400)),
        ("epoch", Every()),
    ],
)
def test_a_number_of_steps_a_time_or_an_epoch_is_understood(value: int | str, every: Every) -> None:
    assert every_of(value) == every
    assert every.is_epoch == (value == "epoch")


@pytest.mark.parametrize(
    "value", [0, -1, "0", "0s", "1.5", "1.5 steps", "10 parsecs", "ten", "", "-1s", "1e3s", 0.5, None, True, "epochs"]
)
def test_anything_else_is_refused_with_what_is_allowed(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"(?s)every=.* is not allowed\nhint: .*500.*'10min'.*'epoch'"):
        every_of(value)


@pytest.mark.parametrize("keep", [0, -1, 1.5, True, "3"])
def test_at_least_one_checkpoint_stays(keep: Any) -> None:
    with pytest.raises(CheckpointError, match=r"keep=.* is not allowed"):
        Policy("ckpt", keep=keep)


@pytest.mark.parametrize("folder", ["", " ", None, b"ckpt", 3])
def test_a_folder_has_a_name(folder: Any) -> None:
    with pytest.raises(CheckpointError, match=r"the folder .* is not allowed"):
        Policy(folder)


def test_a_bucket_of_a_cloud_is_no_folder() -> None:
    with pytest.raises(CheckpointError, match=r"cannot be written to 'gs://bucket/ckpt'"):
        Policy("gs://bucket/ckpt")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file' is not a folder"):
        Policy(tmp_path / "file")


def test_the_folder_stays_where_it_was_when_the_script_changes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    policy = Policy("ckpt")
    os.chdir("/")
    assert policy.folder == str(tmp_path / "ckpt")
    assert (policy.every, policy.keep, policy.reset) == (Every(seconds=600), 3, False)


def test_a_script_has_a_policy_while_it_runs() -> None:
    assert default() is None
    with as_default(Policy("ckpt")):
        assert default() == Policy("ckpt")
    assert default() is None
