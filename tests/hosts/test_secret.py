"""The secret of a job, and its name."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from abreast.errors import LaunchError
from abreast.hosts.secret import job_name, job_secret
from abreast.launchers import World

LONG = "0123456789abcdef"


def file_of(folder: Path, text: str = LONG, mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_the_file_counts_before_the_variable_and_both_before_the_home(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    of_home = job_secret(environ)
    of_variable = job_secret({**environ, "ABREAST_SECRET": LONG})
    file = file_of(tmp_path, LONG + "\n")
    of_file = job_secret({**environ, "ABREAST_SECRET": "another one of 16", "ABREAST_SECRET_FILE": str(file)})
    assert of_file == of_variable != of_home
    assert len(of_file) == 32 and LONG.encode() not in of_file


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o777])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = file_of(tmp_path, mode=mode)
    with pytest.raises(LaunchError, match=rf"ABREAST_SECRET_FILE=.*secret has mode {mode:04o}") as error:
        job_secret({"ABREAST_SECRET_FILE": str(file)})
    assert f"chmod 600 {file}" in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    os.chown(file, 12345, 0)
    with pytest.raises(LaunchError, match="belongs to user 12345, and this process is of 0"):
        job_secret({"ABREAST_SECRET_FILE": str(file)})


def test_what_is_no_file_or_too_short_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, said in (("missing", "No such file"), (".", "is not a file"), ("pipe", "is not a file")):
        with pytest.raises(LaunchError, match=said):
            job_secret({"ABREAST_SECRET_FILE": str(tmp_path / name)})
    with pytest.raises(LaunchError, match=r"the secret in the file .* has 3 bytes, and 16 are needed") as error:
        job_secret({"ABREAST_SECRET_FILE": str(file_of(tmp_path, "abc\n"))})
    assert "secrets.token_hex()" in str(error.value)
    with pytest.raises(LaunchError, match="the secret in ABREAST_SECRET has 5 bytes"):
        job_secret({"ABREAST_SECRET": "short"})


def test_the_secret_of_the_home_is_made_once_and_for_its_user_only(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(job_secret(environ))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 20 and len(set(found)) == 1
    (file,) = (tmp_path / ".abreast").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / ".abreast").write_text("")
    with pytest.raises(
        LaunchError, match=r"cannot be made .*\nhint: give every process the same secret in the variable"
    ):
        job_secret({"HOME": str(tmp_path)})


def test_jobs_have_names_of_their_own() -> None:
    world = World(0, 2, 0, 1, "a", "slurm", "n1", 61440)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    assert job_name(world, slurm) == "slurm SLURM_JOB_ID=7 SLURM_STEP_ID=0 port=61440"
    restarted = {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "1"}
    assert "RESTART" not in job_name(world, restarted)
    one_host = World(0, 2, 0, 2, "a", "torchrun", "n1", 61440)
    assert "TORCHELASTIC_RESTART_COUNT=1" in job_name(one_host, restarted)
