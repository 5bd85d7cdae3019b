"""The command line, in real processes: its output, the view of a script, and the look of a failure."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import abreast
from abreast import cli, provenance
from abreast.bench import lines
from abreast.doctor.diagnosis import Diagnosis
from abreast.errors import AbreastError
from abreast.installing import install_command
from tests.bench.samples import line
from tests.harness.folder import Folder, Result

FRAMEWORKS = ("jax", "tensorflow", "torch", "keras", "numpy")


def test_the_version_is_printed(folder: Folder) -> None:
    assert folder.abreast("--version") == Result(0, f"abreast {abreast.__version__}\n", "")


def test_help_shows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    commands = (
        "devices",
        "env",
        "run",
        "doctor",
        "check",
        "bench",
        "machine",
        "plan",
        "pack",
        "records",
        "checkpoints",
        "torture",
        "completion",
    )
    assert tuple(cli._COMMANDS) == commands
    assert [name for name in commands if f" {name} {cli._COMMANDS[name][1]}" not in text] == []


def test_help_of_run_shows_each_option_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["run", "--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: abreast run [options] SCRIPT [arguments of the script]\n")
    for option in ("--devices SPEC", "--cpu-devices N", "--backend {", "--batch-norm {", "--check-numerics", "-m "):
        assert text.count(option) == 1
    assert "_devices" not in text


def test_help_loads_no_command(folder: Folder) -> None:
    code = """
        import contextlib, io, sys
        from abreast.cli import main
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main(["--help"])
        print(*sorted(name for name in sys.modules if name.startswith("abreast.")))
    """
    loaded = folder.python("-c", textwrap.dedent(code)).out.split()
    names = ("backend_choice", "cli", "errors", "import_hooks", "options", "stdout")
    assert loaded == [f"abreast.{name}" for name in names]


@pytest.mark.alone
def test_help_is_quick(folder: Folder) -> None:
    def shortest_seconds(*arguments: str) -> float:
        def seconds() -> float:
            begin = time.perf_counter()
            folder.python(*arguments)
            return time.perf_counter() - begin

        return min(seconds() for _ in range(5))

    assert shortest_seconds("-m", "abreast", "--help") < shortest_seconds("-c", "") + 0.1  # measured 0.03 more


def test_a_command_loads_no_other_command(folder: Folder) -> None:
    code = """
        import sys
        from abreast.cli import main
        main(["devices"])
        print(*sorted({name.split(".")[1] for name in sys.modules if name.startswith("abreast.")}), file=sys.stderr)
    """
    loaded = folder.python("-c", textwrap.dedent(code)).err.split()
    assert loaded == [
        "backend_choice",
        "cli",
        "cpu",
        "device_list",
        "devices_command",
        "errors",
        "host_options",
        "hosts",
        "import_hooks",
        "launchers",
        "limits",
        "options",
        "stderr",
        "stdout",
        "system_files",
        "text_table",
        "typed_command",
        "units",
    ]


@pytest.mark.parametrize("command", ["run", "doctor", "check"])
def test_the_command_of_a_script_loads_nothing_that_the_script_may_want_to_configure(
    folder: Folder, command: str
) -> None:
    code = f"""
        import contextlib, io, sys
        from abreast.cli import main
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main(["{command}", "--help"])
        print([name for name in {FRAMEWORKS} if name in sys.modules])
    """
    assert folder.python("-c", textwrap.dedent(code)).out == "[]\n"


def test_each_command_has_the_same_two_functions() -> None:
    for name, (module, _) in cli._COMMANDS.items():
        functions = vars(importlib.import_module(module))
        assert list(inspect.signature(functions["add_arguments"]).parameters) == ["parser"], name
        assert list(inspect.signature(functions["run"]).parameters) == ["options"], name


def test_devices_prints_a_table_and_loads_no_framework(folder: Folder) -> None:
    code = f"""
        import sys
        from abreast.cli import main
        main(["devices"])
        print([name for name in {FRAMEWORKS} if name in sys.modules], file=sys.stderr)
    """
    result = folder.python("-c", textwrap.dedent(code), ABREAST_CPU_DEVICES="2")
    header, first, second = result.out.splitlines()
    assert header.split() == ["NAME", "MODEL", "MEMORY", "UUID", "BUS", "ID"]
    assert first.startswith("cpu:0  ")
    assert second.startswith("cpu:1  ")
    assert second.split()[-3:] == ["GiB", "-", "-"]
    assert result.err == "[]\n"


def test_devices_prints_json(folder: Folder) -> None:
    devices = json.loads(folder.abreast("devices", "--json", ABREAST_CPU_DEVICES="1").out)
    assert [device["name"] for device in devices] == ["cpu:0"]
    assert sorted(devices[0]) == ["bus_id", "index", "kind", "memory_bytes", "model", "name", "uuid"]


@pytest.mark.alone
def test_importing_abreast_is_quick_and_loads_nothing(folder: Folder) -> None:
    code = f"""
        import sys, time
        begin = time.perf_counter()
        import abreast
        print(time.perf_counter() - begin, [name for name in {FRAMEWORKS} if name in sys.modules])
    """
    seconds, loaded = folder.python("-c", textwrap.dedent(code)).out.split(maxsplit=1)
    assert loaded == "[]\n"
    assert float(seconds) < 0.1  # measured 0.002


SEEN = """
    import json, sys
    print(json.dumps([sys.argv, sys.path[0], __name__, __file__, sys.modules["__main__"].__dict__ is globals()]))
"""


def test_a_script_sees_what_python_shows_it(folder: Folder) -> None:
    script = folder.write("scripts/show.py", SEEN)
    arguments = [script, "--epochs", "3", "--devices", "9", "--", "-h", "-m"]
    assert folder.abreast("run", "--devices", "1", *arguments).out == folder.python(*arguments).out


def test_a_module_sees_what_python_shows_it(folder: Folder) -> None:
    folder.write("package/__init__.py", "")
    folder.write("package/show.py", SEEN)
    arguments = ["-m", "package.show", "--epochs", "3"]
    assert folder.abreast("run", *arguments).out == folder.python(*arguments).out


def test_a_script_reached_by_a_link_finds_its_neighbours(folder: Folder) -> None:
    folder.write("real/show.py", "import neighbour\n")
    folder.write("real/neighbour.py", "print('found')\n")
    (folder.path / "link.py").symlink_to("real/show.py")
    assert folder.abreast("run", "link.py").out == "found\n"


ENDINGS = ["sys.exit(7)", "sys.exit('because')", "sys.exit()", "1 / 0", "raise KeyError('k') from OSError(3, 'x')"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_ends_as_under_python(folder: Folder, ending: str) -> None:
    script = folder.write("end.py", f"import sys\n\ndef end():\n    {ending}\n\nend()\n")
    assert folder.abreast("run", "--quiet", script) == folder.python(script)


def test_a_syntax_error_looks_as_under_python(folder: Folder) -> None:
    script = folder.write("wrong.py", "def f(:\n")
    assert folder.abreast("run", script) == folder.python(script)


def test_a_folder_with_a_main_runs(folder: Folder) -> None:
    folder.write("tool/__main__.py", "import neighbour")
    folder.write("tool/neighbour.py", "print('found')\n")
    assert folder.abreast("run", "tool").out == "found\n"


UNUSED = "abreast: {} imported no Keras, so nothing was placed on devices\n"


def test_a_script_without_keras_is_reported(folder: Folder) -> None:
    assert folder.abreast("run", folder.write("empty.py", "")) == Result(0, "", UNUSED.format("empty.py"))


def test_an_excepthook_of_the_script_is_used(folder: Folder) -> None:
    script = folder.write("hook.py", "import sys\nsys.excepthook = lambda kind, *_: print(kind.__name__)\n1 / 0\n")
    assert folder.abreast("run", script) == Result(1, "ZeroDivisionError\n", "")


def test_ctrl_c_ends_with_130_and_without_our_frames(folder: Folder) -> None:
    script = folder.write("wait.py", "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "abreast", "run", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder.path, env=folder.environ(), stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "wait.py" in err
    assert err.endswith("KeyboardInterrupt\n")
    assert "abreast" not in err.replace(str(folder.path), "")


def test_a_closed_pipe_ends_a_command_without_a_traceback(folder: Folder) -> None:
    command = f"{sys.executable} -m abreast devices | true; exit ${{PIPESTATUS[0]}}"
    assert folder.bash(command) == Result(0, "", "")


@pytest.mark.parametrize("command", ["torture", "check"])
def test_a_terminated_command_leaves_no_folder_and_no_process(folder: Folder, command: str) -> None:
    script = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(100)\n"
    (folder.path / "wait.py").write_text(script)
    places, pid = folder.path / "places", folder.path / "pid"
    places.mkdir()
    words = [sys.executable, "-m", "abreast", command, "--cpu-devices", "1", "wait.py"]
    environment = {**os.environ, "TMPDIR": str(places), "KERAS_BACKEND": "jax"}
    with subprocess.Popen(words, cwd=folder.path, env=environment, stderr=subprocess.DEVNULL) as process:
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.05)
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert list(places.iterdir()) == []
    assert not Path("/proc", pid.read_text()).exists()


@pytest.mark.parametrize(("stdout", "why"), [("/dev/full", "No space left on device"), ("&-", "it is closed")])
@pytest.mark.parametrize(
    "command",
    [
        "--version",
        "devices --help",
        "devices",
        "machine --quick",
        "plan --model resnet50 --machine dgx-2 --step-time 0.2 --html plan.html",
        "plan --model resnet50 --machine dgx-2 --step-time 0.2 --json",
        pytest.param("bench tiny --cpu-devices 1 --backend jax --report out", marks=pytest.mark.jax),
    ],
)
def test_a_stdout_that_cannot_be_written_is_one_error(folder: Folder, command: str, stdout: str, why: str) -> None:
    measured = line(1, 0.1, model="tiny", rows=64, simulated=True, machine=provenance.machine())
    lines.append(folder.path / "bench.jsonl", [measured])
    result = folder.bash(f"{sys.executable} -m abreast {command} >{stdout}")
    assert result.code == 2
    said = result.err.removeprefix("abreast: 1 measurement already in bench.jsonl; --again measures again\n")
    assert said.startswith(f"abreast: error: cannot write to stdout: {why}\nhint: ")
    assert said.count("\n") == 2
    assert [path.name for path in folder.path.iterdir()] == ["bench.jsonl"]


def test_a_missing_script_is_named(folder: Folder) -> None:
    assert folder.abreast("run", "absent.py") == Result(
        2,
        "",
        f"abreast: error: there is no script 'absent.py' in {folder.path}\n"
        "hint: options of the script come after its name\n",
    )


@pytest.mark.parametrize("command", ["run", "check", "doctor"])
def test_a_folder_is_no_script(folder: Folder, command: str) -> None:
    result = folder.abreast(command, ".")
    hint = "hint: give the name of a Python file\n"
    assert (result.code, result.err) == (2, f"abreast: error: '.' is a folder without __main__.py\n{hint}")


@pytest.mark.in_turn
@pytest.mark.jax
@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("run script.py", "`abreast run --cpu-devices N`, or abreast.use_cpu_devices(N), simulates"),
        ("doctor script.py", "`abreast doctor --cpu-devices N`, or abreast.use_cpu_devices(N), simulates"),
        (
            "run script.py --cpu-devices 4",
            "--cpu-devices comes after the script, which gets it; options of abreast come before the script, as in "
            "`abreast run --cpu-devices N script.py`",
        ),
        ("run script.py --epochs=4 --devices=4", "--devices comes after the script, which gets it;"),
        ("run script.py --epochs 4", "`abreast run --cpu-devices N`"),
    ],
)
def test_the_hint_for_one_device_is_about_the_command_that_was_typed(folder: Folder, typed: str, hint: str) -> None:
    folder.write("script.py", "import keras")
    result = folder.abreast(*typed.split(), KERAS_BACKEND="jax")
    assert f"models train on cpu:0 alone\nhint: {hint}" in result.err


@pytest.mark.parametrize("name", ["absent", "absent.module", "json.absent"])
def test_a_missing_module_is_named(folder: Folder, name: str) -> None:
    result = folder.abreast("run", "-m", name)
    hint = "hint: without -m, give the name of a file\n"
    assert (result.code, result.err) == (2, f"abreast: error: there is no module {name!r}\n{hint}")


def test_a_file_is_no_module_and_does_not_run(folder: Folder) -> None:
    folder.write("script.py", "print('ran')")
    result = folder.abreast("run", "-m", "script.py")
    hint = "hint: leave out -m, or write -m script\n"
    assert (result.code, result.out, result.err) == (2, "", f"abreast: error: -m script.py names a file\n{hint}")


@pytest.mark.parametrize("option", ["--dry-run", "--dry_run"])
def test_simulated_devices_of_the_environment_are_those_of_a_script(folder: Folder, option: str) -> None:
    settings = {"ABREAST_CPU_DEVICES": "2", "KERAS_BACKEND": "jax"}
    script = folder.write("script.py", "import abreast\nprint(len(abreast.devices()))")
    assert "cpu:0, cpu:1" in folder.abreast("run", option, script, **settings).out
    assert folder.abreast("run", script, **settings).out == "2\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--devices", "0"], "abreast: error: 0 devices asked for, which is too few\nhint: ask for at least 1"),
        (["--devices", "gpu-1"], "abreast: error: 'gpu-1' is no device\nhint: give \"auto\", a number, indices as "),
        (
            ["--cpu-devices", "0"],
            "abreast: error: the CPU cannot simulate 0 devices\nhint: give a whole number, at least",
        ),
        (
            ["--cpu-devices", "two"],
            "--cpu-devices 'two' is not a whole number\nhint: give a whole number, as in `--cpu-",
        ),
        (
            ["--input-timeout", "x"],
            "--input-timeout 'x' is not a number\nhint: give a number, as in `--input-timeout 2.5`",
        ),
        (["--prefetch", "-1"], "abreast: error: prefetch=-1 is not allowed\nhint: give a number of batches"),
        (["--backend", "numpy"], "--backend 'numpy' is not known\nhint: known are jax, tensorflow, torch."),
        (["--backend", "pytorch"], "--backend 'pytorch' is not known\nhint: did you mean torch?\n"),
        (["--batch-norm", "none"], "--batch-norm 'none' is not known\nhint: known are global, local."),
        (["--cpu-devices", "9999"], "abreast: error: the CPU cannot simulate 9,999 devices\nhint: give 4,096 at most"),
        (["--hosts", ""], "abreast run: error: --hosts is empty\nhint: give a value, or leave the option out"),
        (["--device", "2"], "abreast run: error: unknown option --device\nhint: did you mean --devices or "),
        (
            ["--epochs", "3"],
            "abreast run: error: unknown option --epochs\n"
            "hint: options of the script come after its name, as in `abreast run train.py --epochs`\n",
        ),
    ],
)
def test_a_wrong_option_ends_before_the_script(folder: Folder, arguments: list[str], text: str) -> None:
    result = folder.abreast("run", *arguments, folder.write("script.py", "print('ran')"))
    assert result.code == 2
    assert text in result.err
    assert result.out == ""


def test_without_a_command_the_help_is_printed(folder: Folder) -> None:
    assert folder.abreast() == folder.abreast("--help")


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("doctr", "abreast: error: there is no command 'doctr'\nhint: did you mean doctor?"),
        ("zzz", "abreast: error: there is no command 'zzz'\nhint: known are devices, env, run, "),
        ("run", "abreast run: error: the following arguments are required: SCRIPT\n"),
        ("records inof", "abreast records: error: there is no action 'inof'\nhint: did you mean info?"),
        ("train.py --epochs 3", "abreast: error: there is no command 'train.py'\nhint: `abreast run train.py` runs"),
        ("--devices 4 run", "abreast: error: --devices comes before a command\nhint: options follow their command"),
        ("--vers", "abreast: error: unknown option --vers\nhint: did you mean --version?"),
        ("devices more", "abreast devices: error: unexpected argument 'more'\n"),
        ("plan --machin dgx-2", "abreast plan: error: unknown option --machin\nhint: did you mean --machine"),
        ("plan --machin=dgx-2", "abreast plan: error: unknown option --machin\nhint: did you mean --machine"),
        ("records info --jsn", "abreast records info: error: unknown option --jsn\nhint: did you mean --json?\n"),
        ("records show d --sede 1", "abreast records show: error: unknown option --sede\nhint: did you mean --seed"),
        (
            "checkpoints list ck",
            "abreast checkpoints: error: there is no action 'ck'\nhint: write `abreast checkpoints ck list`",
        ),
        ("records ck info", "abreast records: error: there is no action 'ck'\nhint: write `abreast records info ck`"),
        (
            "run -lead.py",
            "abreast run: error: unknown option -lead.py\nhint: a file of this name is written ./-lead.py",
        ),
        ("run -x", "abreast run: error: unknown option -x\nhint: options of the script come after its name, as in "),
        ("run -x train.py", "abreast run: error: unknown option -x\nhint: "),
        ("records info", "abreast records info: error: the following arguments are required: DEST\n"),
    ],
)
def test_a_wrong_word_is_an_error_of_its_own_command(typed: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(typed.split())
    error = capsys.readouterr().err
    assert text in error
    assert error.startswith(f"usage: {text.partition(':')[0]} [")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_the_completion_of_a_shell_knows_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("doctor", "extract", "check-numerics", "shard-mb"))
    assert "--check_numerics" not in script


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rec"], "records"),
        (["run", "--bat"], "--batch-norm"),
        (["run", "--batch-norm", "gl"], "global"),
        (["records", "ver"], "verify"),
        (["run", "tra"], "train.py"),
    ],
)
def test_bash_completes(words: list[str], expected: str, folder: Folder) -> None:
    pytest.importorskip("shtab")
    folder.write("train.py", "")
    script = folder.abreast("completion", "bash").out
    line = f"COMP_WORDS=(abreast {' '.join(words)}); COMP_CWORD={len(words)}; COMP_LINE='abreast {' '.join(words)}'"
    completed = folder.bash(f'{script}\n{line}\n_shtab_abreast; echo "${{COMPREPLY[@]}}"')
    assert completed.out.split() == [expected], completed.err


def test_without_shtab_the_completion_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    assert capsys.readouterr().err.endswith(f"hint: {install_command('completion')}\n")


def test_a_backend_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["run", "--backend", "jax", "script.py"]) == 2
    assert capsys.readouterr().err == f"abreast: error: jax is not installed\nhint: {install_command('jax')}\n"


def test_an_installed_backend_is_offered_for_a_missing_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "jax" else ModuleSpec(name, None, origin=name)
    )
    cli.main(["run", "--backend", "jax", "script.py"])
    hint = f"hint: {install_command('jax')}, or choose one that is: --backend tensorflow, --backend torch\n"
    assert capsys.readouterr().err.endswith(hint)


WHERE = """
    import keras, sys
    from abreast import placed_models
    model = keras.Sequential([keras.layers.Dense(1)])
    placement = placed_models.placement_of(model)
    print(keras.backend.backend(), *placement.devices, placement.batch_norm, placement.check_numerics)
"""


DIAGNOSED = Diagnosis("net", "jax", ("cpu:0",), 64, 30, 0.04, {"computing": 0.04}, ())


@pytest.fixture
def diagnosed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A doctor that ends at once, whose script changes the folder; returns the first folder."""

    def diagnose(*_: object, **__: object) -> tuple[int, Diagnosis]:
        (tmp_path / "elsewhere").mkdir()
        os.chdir(tmp_path / "elsewhere")
        return 0, DIAGNOSED

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("abreast.doctor.script.diagnose_script", diagnose)
    return tmp_path


def test_the_files_of_a_doctor_are_where_the_command_was_typed(
    diagnosed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["doctor", "--html", "page.html", "--json", "out.json", "train.py"]) == 0
    assert capsys.readouterr().err == "abreast: wrote out.json\nabreast: wrote page.html\n"
    assert sorted(path.name for path in diagnosed.iterdir()) == ["elsewhere", "out.json", "page.html"]
    assert list((diagnosed / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("option", ["--html", "--json"])
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("absent/page", "there is no folder "),
        ("file/page", "there is no folder "),
        ("folder", "it is not a file"),
        ("script.py", "that would replace a script"),
        pytest.param(
            "closed/page", "no permission in ", marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may")
        ),
    ],
)
def test_a_file_that_a_doctor_cannot_write_is_refused_before_its_script(
    diagnosed: Path, capsys: pytest.CaptureFixture[str], option: str, path: str, why: str
) -> None:
    (diagnosed / "file").touch()
    (diagnosed / "script.py").touch()
    (diagnosed / "folder").mkdir()
    (diagnosed / "closed").mkdir(0o555)
    assert cli.main(["doctor", option, path, "train.py"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("abreast: error: cannot write to ")
    assert why in error
    assert "\nhint: " in error
    assert not (diagnosed / "elsewhere").exists()


def test_one_file_that_fails_does_not_lose_the_other(
    diagnosed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise AbreastError("cannot write", "make room")

    monkeypatch.setattr("abreast.doctor.script.write_json", fail)
    assert cli.main(["doctor", "--html", "page.html", "--json", "out.json", "train.py"]) == 2
    said = capsys.readouterr()
    assert said.err == "abreast: error: cannot write\nhint: make room\nabreast: wrote page.html\n"
    assert said.out.startswith("net on cpu:0, jax: 40.0 ms a step")
    assert (diagnosed / "page.html").exists()


@pytest.mark.parametrize("spelling", ["--devices", "--nproc-per-node", "--nproc_per_node", "--gpus", "--num_processes"])
def test_every_spelling_of_the_number_of_devices_is_taken(
    spelling: str, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = cli._parser().parse_args(["run", spelling, "2", "--check_numerics", "--batch_norm=local", "s.py"])
    assert (options.devices, options.check_numerics, options.batch_norm) == ("2", True, "local")


@pytest.mark.in_turn
def test_the_models_of_a_script_are_placed(folder: Folder, backend: str) -> None:
    script = folder.write("where.py", WHERE)
    options = ["--backend", backend, "--cpu-devices", "2", "--batch-norm", "local", "--check-numerics"]
    result = folder.abreast("run", *options, script)
    assert (result.code, result.out) == (0, f"{backend} cpu:0 cpu:1 local True\n"), result.err


@pytest.mark.in_turn
def test_one_device_is_taken_too(folder: Folder, backend: str) -> None:
    result = folder.abreast("run", "--devices", "1", folder.write("where.py", WHERE), KERAS_BACKEND=backend)
    assert (result.code, result.out) == (0, f"{backend} cpu:0 global False\n"), result.err


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "first", ["import abreast; abreast.DataParallel", "import abreast.feed", "import keras.layers"]
)
@pytest.mark.jax
def test_keras_may_come_by_another_import(folder: Folder, first: str) -> None:
    script = folder.write("where.py", first + "\n" + textwrap.dedent(WHERE))
    result = folder.abreast("run", "--cpu-devices", "2", script, KERAS_BACKEND="jax")
    assert (result.code, result.out) == (0, "jax cpu:0 cpu:1 global False\n"), result.err


@pytest.mark.in_turn
@pytest.mark.tensorflow
def test_keras_may_come_in_the_middle_of_tensorflow(folder: Folder) -> None:
    script = folder.write("where.py", "import tensorflow\n" + textwrap.dedent(WHERE))
    result = folder.abreast("run", "--cpu-devices", "2", script, KERAS_BACKEND="tensorflow")
    assert (result.code, result.out) == (0, "tensorflow cpu:0 cpu:1 global False\n"), result.err


@pytest.mark.jax
@pytest.mark.usefixtures("all_frameworks")
def test_a_script_may_choose_its_backend(folder: Folder) -> None:
    script = folder.write("where.py", "import os\nos.environ['KERAS_BACKEND'] = 'jax'\n" + textwrap.dedent(WHERE))
    assert folder.abreast("run", script, KERAS_BACKEND="torch").out == "jax cpu:0 global False\n"


@pytest.mark.jax
def test_a_script_that_chooses_another_backend_than_the_command_is_refused(folder: Folder) -> None:
    script = folder.write("where.py", "import os\nos.environ['KERAS_BACKEND'] = 'jax'\n" + textwrap.dedent(WHERE))
    result = folder.abreast("run", "--backend", "torch", script)
    assert result == Result(
        2,
        "",
        "abreast: error: --backend is torch, but the script chose jax\n"
        "hint: leave out --backend, or remove KERAS_BACKEND=jax from the script\n",
    )


@pytest.mark.jax
def test_more_devices_than_there_are_is_an_error_without_a_traceback(folder: Folder) -> None:
    result = folder.abreast("run", "--devices", "4", folder.write("where.py", WHERE), KERAS_BACKEND="jax")
    assert (result.code, result.out) == (2, "")
    assert "abreast: error: 4 devices asked for, but there is cpu:0\nhint: to simulate devices" in result.err
    assert "Traceback" not in result.err


@pytest.mark.jax
def test_our_error_inside_a_script_shows_the_line_of_the_script_only(folder: Folder) -> None:
    script = folder.write(
        "train.py",
        """
        import abreast

        def prepare():
            abreast.DataParallel(devices=9)

        prepare()
        """,
    )
    result = folder.abreast("run", script, KERAS_BACKEND="jax")
    assert result.code == 1
    _, _, trace = result.err.rpartition("Traceback (most recent call last):\n")
    locations = [line.split(", ", 1)[1] for line in trace.splitlines() if line.startswith("  File")]
    assert locations == ["line 6, in <module>", "line 4, in prepare"]
    assert "\nabreast.errors.DeviceError: 9 devices asked for, but there is cpu:0\nhint: to simulate" in trace
