"""How many checkpoints stay."""

from __future__ import annotations

from pathlib import Path

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
