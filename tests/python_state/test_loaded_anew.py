"""A module that is loaded anew is refused by name on PyTorch, whose workers have its first code."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import Workers

FIRST = "def scaled(outputs):\n    return 1.0 * outputs\n"


def train_on_changed_code(folder: str, new_model: bool) -> str:
    """In a worker: the error of a fit after the module has changed."""
    import keras
    import numpy as np

    import abreast

    sys.path.insert(0, folder)
    scales: Any = importlib.import_module("scales_of_a_test")

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
        Path(folder, "scales_of_a_test.py").write_text(FIRST.replace("1.0", "30.0"))
        importlib.invalidate_caches()
        importlib.reload(scales)
        (model() if new_model else first).fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=4, verbose=0)
    except abreast.AbreastError as error:
        return str(error)
    finally:
        sys.path.remove(folder)
        del sys.modules["scales_of_a_test"]
    return ""


@pytest.mark.parametrize("new_model", [False, True])
def test_a_module_that_was_loaded_anew_is_refused_by_name(workers: Workers, tmp_path: Path, new_model: bool) -> None:
    if workers.backend != "torch":
        pytest.skip("its devices are processes on PyTorch only")
    (tmp_path / "scales_of_a_test.py").write_text(FIRST)
    said = workers.abreast.run(train_on_changed_code, folder=str(tmp_path), new_model=new_model)
    assert said.startswith("scales_of_a_test.scaled is other code here than in the worker processes")
