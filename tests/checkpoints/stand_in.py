"""A stand-in for a script that trains by Keras under `abreast torture`: NumPy, real files, real processes, no framework.

It has one fit of 60 steps, goes on from its checkpoints as a fit does, and notes what `torture/side.py` notes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from abreast.checking.log import LogWriter
from abreast.checkpoints import folder, writer
from abreast.checkpoints.names import final_name_of, name_of, prefix_of
from abreast.checkpoints.options import under_policy
from abreast.checkpoints.policy import Policy
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.stop import end, in_fit, requested
from abreast.torture.broken import broken
from abreast.torture.file_faults import FileFaults
from abreast.torture.notes import NoteWriter
from abreast.torture.side import MEASURED, StartSpec, noting_saves
from abreast.workers.worker import die_with

STEPS = 60
_STEP_SECONDS = 0.004


def main(text: str, parent: int) -> int:
    """As `abreast.torture.side.main`. The script's name may ask for a mistake."""
    die_with(parent)
    spec = StartSpec.of(text)
    notes = NoteWriter(Path(spec.folder) / "notes.jsonl")
    policy = None if spec.checkpoints is None else Policy(spec.checkpoints, spec.every, spec.keep)
    with FileFaults(notes, spec.plan).installed(), broken(spec.broken), noting_saves(notes):
        try:
            code = under_policy(policy, lambda: _watched(spec, notes))
        except SystemExit as stopped:
            return int(stopped.code or 0)
    if spec.script == "ends slowly":
        time.sleep(1.0)
    return code


def _watched(spec: StartSpec, notes: NoteWriter) -> int:
    notes.add("ready")
    code = _script(spec, notes)
    notes.add("unwatched")  # a signal has its default action soon
    return code


def _script(spec: StartSpec, notes: NoteWriter) -> int:
    log = LogWriter(Path(spec.folder))
    state = {"weights": np.linspace(-1.0, 1.0, 1000)}
    _record(log, "begin", state)
    notes.add("fit", 1)
    if spec.checkpoints is None:
        for step in range(STEPS):
            _step(state, step, spec)
    else:
        with in_fit():
            _kept(spec, notes, state)
    notes.add("fit ended", 1)
    _record(log, "history", state)
    log.close()
    notes.add("done")
    return 0


def _kept(spec: StartSpec, notes: NoteWriter, state: dict[str, Any]) -> None:
    notes.add("devices", spec.options.cpu_devices)
    Path(str(spec.checkpoints)).mkdir(exist_ok=True)
    writing = writer.Writer(Policy(str(spec.checkpoints), spec.every, spec.keep), 1)
    begin = 0
    found = folder.newest_good(str(spec.checkpoints), prefix_of(1))
    notes.add("from", [prefix_of(1), "" if found is None else found[0]])
    if found is not None:
        state["weights"], begin = np.array(found[1].tensors["weights"]), found[1].values["steps"]
        begin += spec.script == "loses a step"
    for step in range(begin, STEPS):
        _step(state, step, spec)
        if spec.every == MEASURED:
            notes.add("steps", 1)
        elif (step + 1) % int(spec.every) == 0 or requested():
            name = name_of(1, 0, step + 1)
            (writing.write_now if requested() else writing.write)(name, _snapshot(state, step + 1))
            if requested():
                end(name)
    writing.write_now(final_name_of(1, 1), _snapshot(state, STEPS))


def _step(state: dict[str, Any], step: int, spec: StartSpec) -> None:
    time.sleep(_STEP_SECONDS)
    parts = np.array_split(np.sin(state["weights"] + step), spec.options.cpu_devices or 1)
    mean = sum(part.sum() for part in parts) / state["weights"].size  # rounded otherwise on other devices
    state["weights"] = state["weights"] - 0.1 * np.cos(state["weights"]) * mean


def _snapshot(state: dict[str, Any], steps: int) -> Snapshot:
    return Snapshot(dict(state), {"steps": steps})


def _record(log: LogWriter, kind: str, state: dict[str, Any]) -> None:
    arrays = {("weight", name): value for name, value in state.items()}
    log.add(kind, "fit 1", arrays, batch=state["weights"].tobytes().hex()[:4000])
