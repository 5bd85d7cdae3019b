"""`abreast check` without a script: a small model on each framework that is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from abreast import cli
from abreast.backend import unused_gpus
from abreast.checking import command, trials
from abreast.checking.compare import Difference, Largest
from abreast.checking.reasons import Reason
from abreast.checking.side import SideSpec
from abreast.checking.verdict import Verdict
from abreast.device_list import Device
from abreast.errors import LaunchError
from abreast.run import RunOptions
from tests.harness.folder import Folder

EQUAL = Verdict("equal", "jax", ("cpu:0", "cpu:1"), 10, 20, 200, Largest(8.9e-7, "loss"))
DIFFERENCE = Difference("values", "fit of small_model", "step", 1)
DIFFERS = Verdict(
    *("differs", "torch", ("cpu:0", "cpu:1"), 10, 20, 200, Largest()),
    difference=DIFFERENCE,
    reasons=(Reason("local BatchNormalization", "it is local", "make it global"),),
)
GPUS = [Device(f"gpu:{index}", "gpu", index, "NVIDIA A100") for index in range(2)]


@pytest.fixture
def frameworks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The verdict or the error of each framework, which a test chooses; no process starts."""
    answers: dict[str, Any] = {"jax": EQUAL, "tensorflow": EQUAL, "torch": EQUAL}

    def check_script(side: SideSpec, tell: object, *, shown: bool) -> Verdict:
        assert (side.script, side.module, shown) == ("abreast.checking.small_model", True, False)
        assert side.options.backend is not None
        answer = answers[side.options.backend]
        if isinstance(answer, Exception):
            raise answer
        verdict: Verdict = answer
        return verdict

    monkeypatch.setattr(trials, "check_script", check_script)
    monkeypatch.setattr(command, "installed", lambda: tuple(answers))
    return answers


def test_equal_frameworks_are_rows_of_a_table(frameworks: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "FRAMEWORK"
    assert [row.split()[0] for row in rows] == ["JAX", "TensorFlow", "PyTorch"]
    assert all("  2 simulated devices  10     equal    8.9e-07  " in row for row in rows)


def test_a_difference_and_an_error_are_explained_below_the_table(
    frameworks: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    frameworks |= {"tensorflow": LaunchError("the script fails: no GPU", "mend it"), "torch": DIFFERS}
    assert cli.main(["check"]) == 1
    table, _, below = capsys.readouterr().out.partition("\n\n")
    assert [" ".join(row.split()[2:-2]) for row in table.splitlines()[2:]] == [
        "- - failed -",
        "2 simulated devices 10 differs -",
    ]
    assert below == (
        "TensorFlow: the script fails: no GPU\nhint: mend it\n\n"
        "PyTorch: differs: first at fit of small_model, step 1 (2 simulated devices, torch)\n"
        "reason: it is local\nhint: make it global\n"
    )


def test_nothing_is_compared_where_every_framework_fails(
    frameworks: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    frameworks |= dict.fromkeys(frameworks, LaunchError("broken"))
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().out.count("failed") == 3


def test_json_has_the_verdict_of_each_framework(frameworks: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    frameworks["torch"] = LaunchError("broken")
    assert cli.main(["check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {name: entry["outcome"] for name, entry in found.items()} == {
        "jax": "equal",
        "tensorflow": "equal",
        "torch": "failed",
    }
    assert found["torch"]["error"] == "broken"


def test_one_framework_can_be_chosen(frameworks: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--backend", "torch", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["torch"]


def test_without_a_framework_the_command_says_how_to_install_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "installed", lambda: ())
    assert cli.main(["check"]) == 2
    assert "none of jax, tensorflow, torch is installed\nhint: pip install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("build", "num_gpus", "expected"),
    [
        ("CUDA 12.8", 2, RunOptions(devices="2")),
        ("CUDA 12.8", 1, RunOptions(cpu_devices=2)),
        (None, 0, RunOptions(cpu_devices=2)),
        (None, 2, RunOptions(cpu_devices=2)),
    ],
)
def test_real_devices_are_used_where_there_are_two_for_the_framework(
    monkeypatch: pytest.MonkeyPatch, build: str | None, num_gpus: int, expected: RunOptions
) -> None:
    for module in (trials, unused_gpus):
        monkeypatch.setattr(module, "gpu_build", lambda name: build)
    monkeypatch.setattr(unused_gpus, "list_nvidia_devices", lambda: GPUS[:num_gpus])
    lines: list[str] = []
    tell: Callable[[str], None] = lines.append
    assert trials.options_of("jax", RunOptions(), GPUS[:num_gpus], tell) == expected
    assert [line.partition("\n")[0] for line in lines] == (
        ["JAX cannot use 2 GPUs of this machine (NVIDIA A100): its build has no CUDA"]
        if (build, num_gpus) == (None, 2)
        else []
    )


@pytest.mark.parametrize(
    ("arguments", "script", "rest"),
    [
        ([], None, []),
        (["--backend", "jax", "--json"], None, []),
        (["train.py"], "train.py", []),
        (["--devices", "2", "train.py", "--backend", "mine"], "train.py", ["--backend", "mine"]),
        (["-m", "package.train", "one"], "package.train", ["one"]),
    ],
)
def test_the_script_may_be_left_out(arguments: list[str], script: str | None, rest: list[str]) -> None:
    options = cli._parser().parse_args(["check", *arguments])
    assert (options.script, options.arguments) == (script, rest)


def test_a_missing_module_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-m"]) == 2
    assert "error: -m without the name of a module\nhint: " in capsys.readouterr().err


@pytest.mark.in_turn
def test_the_small_model_is_exact(folder: Folder, backend: str) -> None:
    (folder.path / "keras.json").write_text('{"image_data_format": "channels_first"}')
    equal = folder.abreast("check", "--backend", backend, "--steps", "5")
    assert equal.code == 0, equal.out + equal.err
    assert equal.out.splitlines()[1].split()[2:7] == ["2", "simulated", "devices", "5", "equal"]
