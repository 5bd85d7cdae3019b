"""One save of a checkpoint, which tests disturb (`tests/harness/crashes.py`), and what may be left of it."""

from __future__ import annotations

import os
from pathlib import Path

from abreast.checkpoints.files import CheckpointFiles
from abreast.checkpoints.folder import checkpoint_names, newest_good, prune, remove
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.write import write_checkpoint
from abreast.errors import CheckpointError
from tests.checkpoints.samples import equal, small


def one_save(folder: Path, files: CheckpointFiles | None = None) -> None:
    """The second checkpoint of a training that keeps one: it is written, then the first one is removed."""
    path = write_checkpoint(folder, "0002", small(2), files)
    remove(folder, [name for name in checkpoint_names(folder) if name != path.name], files)


def begun(folder: Path) -> Path:
    """A folder with the first checkpoint, and what a writer left that died."""
    write_checkpoint(folder, "0001", small(1))
    (folder / ".0000.abreast-part").mkdir()
    (folder / ".0000.abreast-part" / "tensors-00000-of-00001.safetensors").write_bytes(b"half")
    return folder


def state(folder: Path) -> str:
    """`old`, `new` or `both` if the listed checkpoints are these, and whole; or a description of the fault."""
    names = checkpoint_names(folder)
    for name in names:
        try:
            if not equal(read_checkpoint(folder / name), small(int(name[:4]))):
                return "silently wrong"
        except CheckpointError as error:
            return f"half: {error.message}"
    return {("0001",): "old", ("0002",): "new", ("0001", "0002"): "both"}.get(tuple(names), f"lost: {names}")


def goes_on(folder: Path) -> bool:
    """Whether the next job finds the newest checkpoint, saves another one, and leaves nothing else."""
    found = newest_good(folder)
    write_checkpoint(folder, "0003", small(3))
    prune(folder, 1)
    assert found is not None
    return sorted(os.listdir(folder)) == [".lock", "0003"] and state(folder) == "lost: ['0003']"
