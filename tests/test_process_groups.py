"""A process group that a script makes under `abreast run`, in one process: refused by name, with the lines to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from abreast import process_groups
from tests.harness.folder import Folder, Result

ERROR = (
    "abreast.errors.ModelError: the script makes a process group (torch.distributed.init_process_group), and abreast combines "
    f"the devices itself\nhint: {process_groups.HINT}\n"
)
# In place of PyTorch.
_DISTRIBUTED = """
def init_process_group(backend=None, world_size=-1):
    if world_size < 0:
        raise ValueError("Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected")
    print("made", backend, world_size)
"""


def run(folder: Path, call: str, **environ: str) -> Result:
    """`abreast run` of a script that calls the stand-in for PyTorch, and imports no Keras."""
    made = Folder(folder)
    made.write("torch/__init__.py", "")
    made.write("torch/distributed.py", _DISTRIBUTED)
    script = made.write("train.py", f"from torch.distributed import init_process_group\ninit_process_group({call})\n")
    return made.abreast("run", "--quiet", script, **environ)


def test_a_process_group_without_its_launcher_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "'gloo'")
    assert done.code == 1
    assert done.err.endswith(ERROR)
    assert "process_groups.py" not in done.err


def test_a_process_group_is_left_alone_where_abreast_places_nothing_or_a_launcher_counts(tmp_path: Path) -> None:
    assert run(tmp_path, "'gloo', 1").out == "made gloo 1\n"
    world = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert "environment variable RANK expected" in run(tmp_path, "'gloo'", **world).err.splitlines()[-1]


_SCRIPT = """
import torch.distributed as dist
import keras
dist.init_process_group("gloo", init_method="file://{file}", rank=0, world_size=1)
"""


@pytest.mark.in_turn
@pytest.mark.torch
@pytest.mark.parametrize("devices", ["2", pytest.param("1", marks=pytest.mark.full)])
def test_a_process_group_of_one_is_refused_beside_models_on_several_devices(tmp_path: Path, devices: str) -> None:
    folder = Folder(tmp_path)
    script = folder.write("train.py", _SCRIPT.format(file=tmp_path / "store"))
    done = folder.abreast("run", "--quiet", "--backend", "torch", "--cpu-devices", devices, script)
    assert (done.code, done.err.endswith(ERROR)) == ((1, True) if devices == "2" else (0, False)), done.err
