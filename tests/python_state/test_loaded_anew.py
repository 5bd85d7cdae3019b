"""A module that is loaded anew is refused by name on PyTorch, whose workers have its first code."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import Workers

FIRST = "def scaled(outputs):\n    return 1.0 * outputs\n"
CLASS = f"""class Scale:
    def of(self, outputs):
        return 1.0 * outputs


{FIRST.replace("1.0 * outputs", "Scale().of(outputs)")}"""
REWRITTEN = FIRST.replace("return", "assert outputs is not None; return")


def train_on_changed_code(folder: str, new_model: bool, rewritten: str = "", changed: str = "") -> str:
    """In a worker: the error of a fit after the module changed, or "". `rewritten`: the module's code in this process only."""
    import keras
    import numpy as np

    import abreast

    sys.path.insert(0, folder)
    name = next(Path(folder).glob("*.py")).stem
    scales: Any = importlib.import_module(name)

    exec(compile(rewritten, scales.__file__, "exec"), vars(scales))

    class Scaled(keras.layers.Dense):  # type: ignore[misc]
        def call(self, inputs: Any, training: Any = None) -> Any:
            return scales.scaled(super().call(inputs))

    def model() -> Any:
        made = keras.Sequential([keras.Input((3,)), Scaled(1)])
        made.compile("sgd", "mse")
        return abreast.parallelize(made, devices=2)

    try:
        first = model()
        first.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=4, verbose=0)
        if changed:
            Path(folder, f"{name}.py").write_text(changed)
            importlib.invalidate_caches()
            importlib.reload(scales)
        (model() if new_model else first).fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=4, verbose=0)
    except abreast.AbreastError as error:
        return str(error)
    finally:
        sys.path.remove(folder)
        del sys.modules[name]
    return ""


@pytest.mark.parametrize(("code", "name"), [(FIRST, "scaled"), (CLASS, "Scale.of")], ids=["function", "class"])
@pytest.mark.parametrize("new_model", [False, True])
def test_a_module_that_was_loaded_anew_is_refused_by_name(
    workers: Workers, tmp_path: Path, new_model: bool, code: str, name: str
) -> None:
    module = f"scales_{new_model}_{name.partition('.')[0]}"
    if workers.backend != "torch":
        pytest.skip("its devices are processes on PyTorch only")
    (tmp_path / f"{module}.py").write_text(code)
    changed = code.replace("1.0", "30.0")
    said = workers.abreast.run(train_on_changed_code, folder=str(tmp_path), new_model=new_model, changed=changed)
    assert said.startswith(f"{module}.{name} is other code here than in the worker processes")


def test_code_that_an_import_hook_rewrites_here_only_trains(workers: Workers, tmp_path: Path) -> None:
    """As pytest does with the `assert` of tests, which may define layers."""
    if workers.backend != "torch":
        pytest.skip("its devices are processes on PyTorch only")
    (tmp_path / "scales_rewritten.py").write_text(FIRST)
    said = workers.abreast.run(train_on_changed_code, folder=str(tmp_path), new_model=True, rewritten=REWRITTEN)
    assert not said


def train_with_other_bases() -> str:
    """In a worker: the error of a fit after a class that a layer reads got another base."""
    import keras
    import numpy as np

    import abreast

    class Half:
        factor = 0.5

    class Whole:
        factor = 1.0

    class Scale(Whole):
        pass

    class Scaled(keras.layers.Dense):  # type: ignore[misc]
        def call(self, inputs: Any, training: Any = None) -> Any:
            return Scale.factor * super().call(inputs)

    model = keras.Sequential([keras.Input((3,)), Scaled(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices=2)
    model.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=4, verbose=0)
    Scale.__bases__ = (Half,)
    try:
        model.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=4, verbose=0)
    except abreast.AbreastError as error:
        return str(error)
    return ""


def test_a_class_that_gets_other_bases_is_refused_by_name(workers: Workers) -> None:
    if workers.backend != "torch":
        pytest.skip("its devices are processes on PyTorch only")
    assert "Scale have changed since the worker processes got it" in workers.abreast.run(train_with_other_bases)
