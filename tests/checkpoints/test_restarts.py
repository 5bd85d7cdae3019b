"""`abreast run --max-restarts`: a script that crashes starts again while it makes progress, not after a signal or Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.checkpoints.running import running
from tests.harness.folder import Folder

# Counts its own starts, and can write what looks like a checkpoint.
BEGIN = """
import os, pathlib, signal, sys, time
starts = pathlib.Path("starts")
count = int(starts.read_text()) + 1 if starts.exists() else 1
starts.write_text(str(count))
print("start", count, "of process", os.getpid())

def save(name):
    folder = pathlib.Path("ckpt", name)
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()

"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def command(folder: Folder, text: str, *options: str) -> tuple[str, ...]:
    return ("-m", "abreast", "run", "--quiet", "--checkpoint", "ckpt", *options, folder.write("train.py", BEGIN + text))


def starts(folder: Folder) -> int:
    return int((folder.path / "starts").read_text())


def has_ended(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


CRASHES = {
    "sys.exit(1)": "the script ended with exit code 1",
    "sys.exit(75)": "the script asked to be tried again (75)",
    "os.kill(os.getpid(), signal.SIGKILL)": "the script was ended by SIGKILL",
}


@pytest.mark.in_turn
@pytest.mark.parametrize("crash", CRASHES)
def test_a_script_that_crashes_with_progress_starts_again(folder: Folder, crash: str) -> None:
    text = f"if count < 3:\n    save(f'step-{{count}}')\n    {crash}\nprint('done')\n"
    end = folder.python(*command(folder, text, "--max-restarts", "5"))
    assert (end.code, end.out.splitlines()[-1], starts(folder)) == (0, "done", 3)
    assert end.err.splitlines() == [
        f"abreast: {CRASHES[crash]}; it starts again from step-1 (restart 1 of 5)",
        f"abreast: {CRASHES[crash]}; it starts again from step-2 (restart 2 of 5)",
    ]


def test_a_checkpoint_that_is_refused_is_not_tried_again(folder: Folder) -> None:
    text = "from abreast.errors import CheckpointError\nraise CheckpointError('another model', 'none')\n"
    end = folder.python(*command(folder, text, "--max-restarts", "5"))
    assert (end.code, starts(folder)) == (2, 1)
    assert "another model" in end.err and "starts again" not in end.err


def test_a_script_that_crashes_twice_without_progress_is_given_up(folder: Folder) -> None:
    end = folder.python(*command(folder, "raise ValueError('no')", "--max-restarts", "5"))
    assert (end.code, starts(folder)) == (1, 2)
    ours = [line for line in end.err.splitlines() if line.startswith(("abreast", "hint"))]
    assert ours == [
        "abreast: the script ended with exit code 1; it starts again at its beginning: there is no checkpoint yet "
        "(restart 1 of 5)",
        "abreast: error: the script ended with exit code 1 again, without a new checkpoint since it was started",
        "hint: look at the error above; once the cause is gone, start the same command",
    ]


@pytest.mark.in_turn
def test_restarts_are_used_up(folder: Folder) -> None:
    end = folder.python(*command(folder, "save(f'step-{count}')\nsys.exit(4)", "--max-restarts", "1"))
    assert (end.code, starts(folder)) == (4, 2)
    assert end.err.splitlines()[-2:] == [
        "abreast: error: the script ended with exit code 4, and has been started again 1 times already",
        "hint: look at what the script printed above; once the cause is gone, start the same command; it goes on from step-2",
    ]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("crash", "hint"),
    [
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "SIGKILL leaves no message: the system sends it when memory runs out (see `dmesg`), a job manager at a limit",
        ),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV leaves no traceback; `PYTHONFAULTHANDLER=1` prints one"),
        ("sys.exit(75)", "look at what the script printed above"),
    ],
)
def test_an_end_without_an_error_is_not_called_one(folder: Folder, crash: str, hint: str) -> None:
    end = folder.python(*command(folder, crash, "--max-restarts", "1"))
    assert end.err.splitlines()[-1] == f"hint: {hint}; once the cause is gone, start the same command"


@pytest.mark.in_turn
@pytest.mark.parametrize("crash", ["sys.exit(2)", "raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGINT)"])
def test_a_wrong_request_and_ctrl_c_are_no_crashes(folder: Folder, crash: str) -> None:
    end = folder.python(*command(folder, f"save('step-1')\n{crash}\ntime.sleep(9)", "--max-restarts", "5"))
    assert (end.code, starts(folder)) == (2 if "(2)" in crash else 130, 1)


@pytest.mark.in_turn
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)
@pytest.mark.parametrize("to_all", [False, True], ids=["to the supervisor", "to the group"])
def test_a_signal_to_the_supervisor_goes_on_to_the_script_and_is_its_end(
    folder: Folder, number: signal.Signals, to_all: bool
) -> None:
    with running(folder, *command(folder, "time.sleep(60)", "--max-restarts", "5")) as run:
        run.wait_for("start 1")
        os.killpg(run.process.pid, number) if to_all else run.send(number)
        end = run.end(10)
    assert (end.code, starts(folder)) == (75, 1)
    assert end.err == f"abreast: {number.name} asked for an end outside of a fit: what was saved before counts\n"


def test_a_signal_that_ends_the_script_before_the_supervisor_takes_it_asks_for_the_end(folder: Folder) -> None:
    end = folder.python(
        "-c",
        "import os, signal, subprocess\n"
        "from abreast.checkpoints import restarts\n"
        "class Ended(subprocess.Popen):\n"
        "    def poll(self):\n"
        "        return self.wait()\n"
        "subprocess.Popen = Ended\n"
        "restarts.sys.orig_argv = ['python', '-c', 'import os; os.kill(os.getppid(), 10)']\n"
        "with restarts._signals_wait():\n"
        "    print(restarts._run_once(False))\n",
    )
    assert (end.code, end.out.strip()) == (0, "(0, True)"), end


@pytest.mark.in_turn
def test_a_signal_to_the_script_alone_is_a_crash(folder: Folder) -> None:
    with running(folder, *command(folder, "if count == 1:\n    time.sleep(60)", "--max-restarts", "5")) as run:
        os.kill(int(run.wait_for("start 1").split()[-1]), signal.SIGTERM)
        end = run.end(20)
    assert (end.code, starts(folder)) == (0, 2)


@pytest.mark.in_turn
def test_ctrl_c_in_a_terminal_reaches_both_and_ends_them(folder: Folder) -> None:
    with running(folder, *command(folder, "time.sleep(60)", "--max-restarts", "5")) as run:
        run.wait_for("start 1")
        os.killpg(run.process.pid, signal.SIGINT)
        end = run.end(10)
    assert (end.code, starts(folder)) == (130, 1)


@pytest.mark.in_turn
def test_a_second_signal_to_the_supervisor_ends_the_script_at_once(folder: Folder) -> None:
    text = "from abreast.checkpoints import stop\nwith stop.in_fit():\n    print('ready')\n    time.sleep(60)\n"
    with running(folder, *command(folder, text, "--max-restarts", "5")) as run:
        run.wait_for("ready")
        run.send(signal.SIGTERM)
        time.sleep(1.5)
        run.send(signal.SIGTERM)
        end = run.end(10)
    assert (end.code, starts(folder)) == (143, 1)


def test_a_supervisor_that_is_killed_leaves_no_child(folder: Folder) -> None:
    with running(folder, *command(folder, "time.sleep(60)", "--max-restarts", "5")) as run:
        child = int(run.wait_for("start 1").split()[-1])
        assert child != run.process.pid
        run.send(signal.SIGKILL)
        run.process.wait(10)
        end = time.monotonic() + 5
        while not has_ended(child) and time.monotonic() < end:
            time.sleep(0.02)
        assert has_ended(child)


@pytest.mark.in_turn
def test_a_reset_is_done_once(folder: Folder) -> None:
    """The real first fit removes older checkpoints; a restart before it still has to."""
    text = """
from abreast.checkpoints.policy import default
print("reset", default().reset)
if count == 2:
    os.rename("ckpt/old", ".old")
    save("new")
if count < 4:
    sys.exit(1)
"""
    (folder.path / "ckpt/old").mkdir(parents=True)
    (folder.path / "ckpt/old/manifest.json").touch()
    end = folder.python(*command(folder, text, "--checkpoint-reset", "--max-restarts", "5"))
    assert [line for line in end.out.splitlines() if "reset" in line] == ["reset True", "reset True", "reset False"]
    assert (end.code, starts(folder)) == (1, 3)


def test_the_script_reads_what_it_is_given_and_its_children_are_not_supervised(folder: Folder) -> None:
    text = "print(sys.argv[1:], sys.stdin.read(), [name for name in os.environ if 'ABREAST' in name])"
    words = command(folder, text, "--max-restarts", "1")
    done = folder.bash(f"echo input | {sys.executable} -m abreast {' '.join(words[2:])} --lr 0.1")
    assert done.out.splitlines()[-2:] == ["['--lr', '0.1'] input", " []"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-restarts", "3"), "--max-restarts is given, and --checkpoint is not\nhint: add --checkpoint DIR"),
        (("--checkpoint-every", "1h"), "--checkpoint-every is given, and --checkpoint is not"),
        (("--checkpoint-keep", "3"), "--checkpoint-keep is given, and --checkpoint is not"),
        (("--checkpoint-reset",), "--checkpoint-reset is given, and --checkpoint is not"),
        (
            ("--checkpoint", "ckpt", "--checkpoint-every", "0"),
            "--checkpoint-every '0' is not allowed\nhint: give a number of steps",
        ),
        (("--checkpoint", "ckpt", "--checkpoint-keep", "0"), "--checkpoint-keep 0 is not allowed"),
        (("--checkpoint", "ckpt", "--max-restarts", "-1"), "--max-restarts -1 is not allowed\nhint: give 0 or more"),
        (("--checkpoint", "ckpt", "--ray", "--hosts", "2"), "--checkpoint does not work with --ray\nhint: "),
    ],
)
def test_options_that_cannot_be_honoured_are_errors_before_anything_starts(
    folder: Folder, options: tuple[str, ...], message: str
) -> None:
    end = folder.abreast("run", *options, folder.write("train.py", "print('not here')"))
    assert (end.code, end.out) == (2, "")
    assert end.err.startswith(f"abreast: error: {message}")


def test_the_processes_of_a_launcher_are_started_again_by_it(folder: Folder) -> None:
    launched = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    words = command(folder, "", "--max-restarts", "1")[2:]
    end = folder.abreast(*words, **launched, MASTER_PORT="29500", TORCHELASTIC_RUN_ID="none")
    assert (end.code, end.out) == (2, "")
    assert end.err == (
        "abreast: error: --max-restarts starts one process again, and torchrun started 2 that only work together\n"
        "hint: leave out --max-restarts; `torchrun --max-restarts N` starts all processes again\n"
    )
