"""The notebooks of the documentation run from top to bottom, each in a kernel and an empty folder of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.harness.client import ROOT
from tests.harness.installed import keras_is_older_than, skip_unless_installed

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.in_turn
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_the_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(path, as_version=4)
    skip_unless_installed(backend_of(notebook))
    if 'format="torch"' in str(notebook) and keras_is_older_than("3.15"):
        pytest.skip("Keras 3.15 exports programs of PyTorch first")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    run(notebook, tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_the_notebook_shows_what_it_printed_and_no_path(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs and all(cell.execution_count for cell in cells)
    assert [output for output in outputs if output.output_type == "error"] == []
    assert not any(word in str(outputs) for word in ("/home/", "/root/", "/tmp/", "/work/"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_the_first_cell_names_what_to_install(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = "".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    command = notebook.cells[0].source.partition("`pip install '.[")[2].partition("`")[0]
    assert command.startswith(backend_of(notebook))
    for module, package in (("sklearn", "scikit-learn"), ("skimage", "scikit-image"), ("PIL", "images")):
        assert (module in code) == (package in command), module


@pytest.mark.full
def test_the_notebook_of_files_runs_twice_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "docs/notebooks/photographs-to-served-model.ipynb"
    for _ in range(2):
        test_the_notebook_runs(path, tmp_path, monkeypatch)


def test_each_backend_has_a_notebook() -> None:
    assert {backend_of(nbformat.read(path, as_version=4)) for path in NOTEBOOKS} == {"jax", "tensorflow", "torch"}


def backend_of(notebook: nbformat.NotebookNode) -> str:
    text = "".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return str(text.partition('os.environ["KERAS_BACKEND"] = "')[2].partition('"')[0])


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}})
    manager: Any = client.create_kernel_manager()
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    client.execute()


if __name__ == "__main__":  # python -m tests.test_notebooks: run them all and keep their outputs
    import tempfile

    for one in map(Path, sys.argv[1:]) if sys.argv[1:] else NOTEBOOKS:
        read = nbformat.read(one, as_version=4)
        with tempfile.TemporaryDirectory() as empty:
            run(read, Path(empty))
        for cell in read.cells:
            cell.metadata.pop("execution", None)  # times of day
            if cell.cell_type == "code":  # without lines of TensorFlow's log
                cell.outputs = [output for output in cell.outputs if "absl::InitializeLog" not in str(output)]
        nbformat.write(read, one)
