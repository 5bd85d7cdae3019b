"""The framework that Keras uses: chosen by the user, or installed. Other frameworks are hidden from a fresh process."""

from __future__ import annotations

import json

import pytest

from abreast.installing import install_command
from tests.harness.client import BACKENDS, TITLES
from tests.harness.folder import Folder, Result

SAID = "abreast: Keras runs on {}: {} installed, and {}, is not; KERAS_BACKEND={} leaves out this line\n"
DEFAULT = "TensorFlow, the default of Keras"


class Machine:
    """Runs Python where only some frameworks are installed, with or without Keras's configuration file."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.home = folder.path / "home"
        self.configuration = self.home / "keras.json"

    def configure(self, text: str) -> None:
        self.folder.write("home/keras.json", text)

    def python(self, *arguments: str, has: str, **environ: str) -> Result:
        ours = {
            "HIDDEN_PACKAGES": " ".join(set(BACKENDS) - set(has.split())),
            "JAX_PLATFORMS": "cpu",
            "KERAS_HOME": str(self.home),
        }
        return self.folder.python(*arguments, **{**ours, **environ})

    def script(self, text: str) -> str:
        return self.folder.write("script.py", text)


@pytest.fixture
def machine(folder: Folder) -> Machine:
    return Machine(folder)


CHOOSE = "from abreast.backend_choice import choose_backend; import os; print(choose_backend(), os.environ.get('KERAS_BACKEND'))"
ONE = [name for name in BACKENDS if name != "tensorflow"]


@pytest.mark.parametrize("has", ["tensorflow", " ".join(BACKENDS)])
def test_tensorflow_is_used_where_it_is_installed_as_keras_does(machine: Machine, has: str) -> None:
    done = machine.python("-c", CHOOSE, has=has)
    assert (done.out, done.err) == ("tensorflow None\n", "")


@pytest.mark.parametrize("name", ONE)
def test_the_only_framework_is_used_and_one_line_says_so(machine: Machine, name: str) -> None:
    done = machine.python("-c", CHOOSE, has=name)
    assert done.out == f"{name} {name}\n"
    assert done.err == SAID.format(TITLES[name], f"{TITLES[name]} is", DEFAULT, name)


def test_the_first_of_several_frameworks_is_used(machine: Machine) -> None:
    done = machine.python("-c", CHOOSE, has="jax torch")
    assert done.out == "jax jax\n"
    assert done.err == SAID.format("JAX", "JAX and PyTorch are", DEFAULT, "jax")


def test_the_choice_of_the_environment_is_kept(machine: Machine) -> None:
    machine.configure('{"backend": "jax"}')
    done = machine.python("-c", CHOOSE, has="jax tensorflow torch", KERAS_BACKEND="torch")
    assert (done.out, done.err) == ("torch torch\n", "")


def test_the_choice_of_keras_json_is_kept(machine: Machine) -> None:
    machine.configure('{"backend": "torch"}')
    done = machine.python("-c", CHOOSE, has="jax tensorflow torch", KERAS_BACKEND="")
    assert (done.out, done.err) == ("torch \n", "")


def test_a_framework_of_keras_json_that_is_not_installed_is_replaced(machine: Machine) -> None:
    """Keras writes `tensorflow` into that file at its first import, also where it is not installed."""
    machine.configure('{"backend": "tensorflow"}')
    done = machine.python("-c", CHOOSE, has="torch")
    assert done.out == "torch torch\n"
    named = f"TensorFlow, the backend in {machine.configuration}"
    assert done.err == SAID.format("PyTorch", "PyTorch is", named, "torch")


@pytest.mark.parametrize("text", ["not JSON", "[]", "{}"])
def test_a_keras_json_without_a_backend_counts_as_none(machine: Machine, text: str) -> None:
    machine.configure(text)
    assert machine.python("-c", CHOOSE, has="jax").out == "jax jax\n"


@pytest.mark.parametrize("where", ["environment", "keras.json"])
def test_a_backend_without_devices_is_left_to_keras(machine: Machine, where: str) -> None:
    machine.configure(json.dumps({"backend": "numpy"} if where == "keras.json" else {}))
    environ = {"KERAS_BACKEND": "numpy"} if where == "environment" else {}
    assert machine.python("-c", CHOOSE, has="jax", **environ).out.startswith("numpy ")


@pytest.mark.parametrize("command", ["python script.py", "abreast run script.py", "abreast check script.py"])
@pytest.mark.parametrize("where", ["environment", "keras.json"])
def test_a_backend_that_keras_does_not_know_is_an_error(machine: Machine, where: str, command: str) -> None:
    machine.configure(json.dumps({"backend": "jx"} if where == "keras.json" else {}))
    environ = {"KERAS_BACKEND": "jx"} if where == "environment" else {}
    script = machine.script("import abreast, keras")
    words = ["-m", *command.split()] if command.startswith("abreast") else [script]
    done = machine.python(*words, has="jax", **environ)
    named = "KERAS_BACKEND=jx" if where == "environment" else f'"backend": "jx" in {machine.configuration}'
    assert f"rror: {named}: Keras has no backend of that name\nhint: did you mean jax?\n" in done.err
    assert ("Traceback" in done.err) == command.startswith("python")
    assert done.code == (1 if command.startswith("python") else 2)


def test_what_an_uninstallation_left_is_no_framework(machine: Machine) -> None:
    (machine.folder.path / "tensorflow" / "__pycache__").mkdir(parents=True)
    done = machine.python("-c", "import sys; sys.path.insert(0, '.'); " + CHOOSE, has="jax")
    assert done.out == "jax jax\n"


@pytest.mark.parametrize("arguments", [["run"], ["doctor"], ["check"]], ids=" ".join)
@pytest.mark.parametrize(
    ("has", "asked", "message", "hint"),
    [
        (
            "jax",
            "torch",
            "torch is not installed",
            f"{install_command('torch')}, or choose one that is: KERAS_BACKEND=jax",
        ),
        ("", "", "none of jax, tensorflow or torch is installed", install_command("jax")),
    ],
)
def test_a_command_without_its_framework_names_it_and_how_to_install_it(
    machine: Machine, arguments: list[str], has: str, asked: str, message: str, hint: str
) -> None:
    done = machine.python("-m", "abreast", *arguments, machine.script("import keras"), has=has, KERAS_BACKEND=asked)
    assert done.code == 2, done.err
    assert done.err.endswith(f"abreast: error: {message}\nhint: {hint}\n")
    assert "Traceback" not in done.err


def test_an_import_of_keras_without_a_framework_says_how_to_install_one(machine: Machine) -> None:
    done = machine.python("-c", "import abreast, keras", has="")
    assert done.code == 1
    error = "abreast.errors.NotInstalledError: none of jax, tensorflow or torch is installed"
    assert done.err.endswith(f"\n{error}\nhint: {install_command('jax')}\n")


@pytest.mark.parametrize("environ", [{}, {"KERAS_BACKEND": "jax"}])
def test_a_script_that_can_do_without_keras_catches_what_keras_raises_without_abreast(
    machine: Machine, environ: dict[str, str]
) -> None:
    text = "import abreast\ntry:\n    import keras\nexcept ImportError:\n    print('without')\n"
    done = machine.python(machine.script(text), has="", **environ)
    assert (done.out, done.err) == ("without\n", "")


def test_a_stand_in_for_a_framework_is_none(machine: Machine) -> None:
    text = f"import sys, types\nsys.modules['torch'] = types.ModuleType('torch')\n{CHOOSE}"
    done = machine.python(machine.script(text), has="jax torch")
    assert done.out == "jax jax\n", done.err


SHOWN = "import abreast\nimport keras\nprint(keras.backend.backend(), abreast.devices())\n"


@pytest.mark.in_turn
def test_keras_takes_the_only_framework_that_is_installed(machine: Machine, backend: str) -> None:
    done = machine.python(machine.script(SHOWN), has=backend)
    assert done.out == f"{backend} ('cpu:0',)\n", done.err
    assert done.err.count("abreast: Keras runs on ") == (backend != "tensorflow")


@pytest.mark.jax
def test_a_script_may_choose_between_abreast_and_keras(machine: Machine) -> None:
    text = "import importlib.util, os, abreast\nassert importlib.util.find_spec('keras')\n"
    script = machine.script(text + "os.environ.setdefault('KERAS_BACKEND', 'jax')\n" + SHOWN)
    done = machine.python(script, has="jax torch")
    assert (done.out, done.err) == ("jax ('cpu:0',)\n", "")


TRAIN = """
import keras, numpy as np
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=4, verbose=0)
"""


@pytest.mark.parametrize(
    "command", ["run", pytest.param("doctor", marks=pytest.mark.full), pytest.param("check", marks=pytest.mark.full)]
)
@pytest.mark.jax
def test_a_script_without_a_word_about_backends_trains_on_the_only_framework(machine: Machine, command: str) -> None:
    """Also `check`, which runs the script twice."""
    options = ["--cpu-devices", "2"]
    done = machine.python("-m", "abreast", command, *options, machine.script(TRAIN), has="jax")
    assert done.code == 0, done.err
    assert done.err.count("abreast: Keras runs on JAX") == 1


@pytest.mark.parametrize(
    ("has", "environ", "said"),
    [
        ("jax torch", {"KERAS_BACKEND": "torch"}, ["torch"]),
        ("jax torch", {}, ["jax"]),
        ("jax tensorflow torch", {}, ["tensorflow"]),
    ],
)
def test_bench_and_machine_take_the_same_framework(
    machine: Machine, has: str, environ: dict[str, str], said: list[str]
) -> None:
    code = """
from abreast import cli
from abreast.bench import command as bench
from abreast.machine import command, machine
command.machine = lambda folder, backend, *_, **__: {"backend": backend}
cli.main(["machine"])
options = cli._parser().parse_args(["bench", "tiny", "--cpu-devices", "1"])
from abreast.bench.from_options import cells_of
print([cell.case.backend for cell in cells_of(options, print)])
"""
    done = machine.python("-c", code, has=has, **environ)
    text, _, cells = done.out.rpartition("}\n")
    assert json.loads(text + "}") == {"backend": said[0]}, done.err
    assert cells == f"{said}\n"


def test_a_machine_without_a_framework_is_described_too(machine: Machine) -> None:
    code = """
from abreast import cli
from abreast.machine import command
command.machine = lambda folder, backend, *_, **__: {"backend": backend}
cli.main(["machine"])
"""
    done = machine.python("-c", code, has="")
    assert (json.loads(done.out), done.err) == ({"backend": None}, "")
