"""How many checkpoints stay."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from abreast.checkpoints.folder import checkpoint_names
from abreast.checkpoints.names import name_of
from abreast.checkpoints.policy import Policy
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.writer import Writer


@pytest.mark.parametrize("keep", [1, 2, 3, 4, 5, 8])
def test_the_newest_stay_as_many_as_are_asked_for(tmp_path: Path, keep: int) -> None:
    writer = Writer(Policy(tmp_path, keep=keep), 1)
    names = [name_of(1, 0, step) for step in range(7)]
    for number, name in enumerate(names, start=1):
        writer.write_now(name, Snapshot({}, {}))
        assert checkpoint_names(tmp_path) == names[max(0, number - keep) : number]


def test_arrays_are_spare_once_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write = threading.Event()
    monkeypatch.setattr(Writer, "_written", lambda *_: may_write.wait(60))
    writer, tensors = Writer(Policy(tmp_path), 1), {"model/kernel": np.ones(3)}
    writer.write(name_of(1, 0, 1), Snapshot(tensors, {}))
    assert writer.take_spare() == {}
    may_write.set()
    writer.close()
    assert writer.take_spare() is tensors
    assert writer.take_spare() == {}
