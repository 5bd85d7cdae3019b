"""Horovod beside abreast: its optimizer, tape, callbacks and processes are refused by name. The package here is a stand-in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abreast import horovod
from abreast.errors import LaunchError, ModelError
from abreast.launchers import read_world
from tests.harness.client import RemoteError, Workers
from tests.harness.folder import Folder

_PACKAGE = {
    "__init__.py": "",
    "keras/__init__.py": """
from horovod.keras import callbacks
class _Optimizer: pass
def DistributedOptimizer(optimizer): return _Optimizer()
def size(): return 1
""",
    "keras/callbacks.py": """
class Plain: pass
class MetricAverageCallback(Plain): pass
""",
    "tensorflow.py": "class DistributedGradientTape: pass",
}


def written(folder: Path) -> Path:
    for name, text in _PACKAGE.items():
        file = folder / "horovod" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(written(tmp_path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:
        del sys.modules[name]


def imported(name: str) -> Any:
    return __import__(name, fromlist=["x"])


@pytest.mark.parametrize("is_imported", [True, False])
@pytest.mark.usefixtures("package")
def test_what_horovod_distributes_is_refused_by_name(is_imported: bool) -> None:
    before = list(sys.meta_path)
    if is_imported:
        imported("horovod.keras"), imported("horovod.tensorflow")
    with horovod.refused():
        hvd, of_tensorflow = imported("horovod.keras"), imported("horovod.tensorflow")
        assert hvd.size() == 1
        for name, make in (
            ("DistributedOptimizer", lambda: hvd.DistributedOptimizer("sgd")),
            ("callbacks.MetricAverageCallback", hvd.callbacks.MetricAverageCallback),
            ("DistributedGradientTape", of_tensorflow.DistributedGradientTape),
        ):
            with pytest.raises(ModelError) as caught:
                make()
            assert caught.value.message == f"the script uses Horovod's {name}, and abreast combines the devices itself"
            assert caught.value.hint == horovod.HINT
    assert sys.meta_path == before


@pytest.mark.usefixtures("package")
def test_a_model_with_parts_of_horovod_is_refused() -> None:
    hvd = imported("horovod.keras")
    plain, optimizer = SimpleNamespace(optimizer="sgd"), hvd.DistributedOptimizer("sgd")
    horovod.refuse(plain, None)
    horovod.refuse(plain, [SimpleNamespace()])
    for model in (
        SimpleNamespace(optimizer=optimizer),
        SimpleNamespace(optimizer=SimpleNamespace(inner_optimizer=optimizer)),
    ):
        with pytest.raises(ModelError, match="DistributedOptimizer"):
            horovod.refuse(model, None)
    callback = hvd.callbacks.MetricAverageCallback()
    for callbacks in (callback, [callback], SimpleNamespace(callbacks=[callback])):
        with pytest.raises(ModelError, match=r"callbacks\.MetricAverageCallback"):
            horovod.refuse(plain, callbacks)


def fit_with_a_callback() -> None:
    import keras
    import numpy as np

    import abreast

    kind = type("MetricAverageCallback", (keras.callbacks.Callback,), {"__module__": "horovod._keras.callbacks"})
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, 2).fit(np.ones((8, 2)), np.ones((8, 1)), callbacks=[kind()])


def test_fit_refuses_a_callback_of_horovod(workers: Workers) -> None:
    with pytest.raises(RemoteError, match=r"Horovod's callbacks\.MetricAverageCallback"):
        workers.abreast.run(fit_with_a_callback)


def test_processes_of_horovodrun_are_refused() -> None:
    assert read_world({"HOROVOD_SIZE": "1", "HOROVOD_RANK": "0"}).size == 1
    with pytest.raises(LaunchError, match=r"horovodrun started 4 processes \(HOROVOD_SIZE=4\)"):
        read_world({"HOROVOD_SIZE": "4", "HOROVOD_RANK": "1"})


def test_a_script_that_misses_horovod_reads_what_to_change(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    result = folder.abreast("run", folder.write("train.py", "import horovod.keras as hvd"))
    assert result.code == 1
    assert result.err.splitlines()[-2] == "ModuleNotFoundError: No module named 'horovod'"
    assert result.err.splitlines()[-1] == f"abreast: trains on several devices without Horovod: {horovod.HINT}"
