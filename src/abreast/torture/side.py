"""One start of the script in a process of its own, like `abreast run --checkpoint`, with notes of its events.

Its program is `start.py`'s. Checkpoints go to a folder of ours, also those of a script with `abreast.Checkpoint`.
"""

from __future__ import annotations

import functools
import json
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from abreast import deterministic, typed_command
from abreast.checking.seeds import seed_before_keras, seed_keras
from abreast.checking.side import code_of
from abreast.checkpoints import write, writer
from abreast.checkpoints.options import under_policy
from abreast.checkpoints.policy import Policy
from abreast.errors import AbreastError
from abreast.replacing import replaced
from abreast.run import RunOptions, run_script
from abreast.stderr import fail
from abreast.torture.broken import broken
from abreast.torture.file_faults import FileFaults, FilePlan
from abreast.torture.notes import NoteWriter
from abreast.workers.worker import die_with

MEASURED = 10**12  # steps between two checkpoints of a measured start: so many that none is due


@dataclass(frozen=True)
class StartSpec:
    """The script, the options to run it, and the folder for notes and log. `checkpoints`: a folder, or None for no checkpoints.

    `broken`: the part that is switched off, for tests (`broken.py`).
    """

    script: str
    arguments: tuple[str, ...]
    module: bool
    options: RunOptions
    folder: str
    checkpoints: str | None = None
    every: int | str = "10min"
    keep: int = 3
    plan: FilePlan | None = None
    broken: str = ""

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> StartSpec:
        fields = json.loads(text)
        fields["arguments"] = tuple(fields["arguments"])
        fields["options"] = RunOptions(**fields["options"])
        fields["plan"] = fields["plan"] and FilePlan(**fields["plan"])
        return StartSpec(**fields)


def main(text: str, parent: int) -> int:
    """Run the script; returns its exit code. The process ends with its parent."""
    die_with(parent)
    spec = StartSpec.of(text)
    notes = NoteWriter(Path(spec.folder) / "notes.jsonl")
    seed_before_keras()
    with typed_command.typed("torture", spec.script), ExitStack() as stack:
        stack.enter_context(FileFaults(notes, spec.plan).installed())
        stack.enter_context(broken(spec.broken))  # before the notes: a sync that is left out must not be noted
        stack.enter_context(noting_saves(notes))
        return _run(spec, notes, _Recording(spec, notes, stack))


def _run(spec: StartSpec, notes: NoteWriter, recording: _Recording) -> int:
    def script() -> int:
        notes.add("ready")  # signals are watched from here on
        code = run_script(spec.script, spec.arguments, spec.options, module=spec.module, placed=recording.begin)
        notes.add("unwatched")
        return code

    try:
        code = under_policy(_policy(spec), script)
    except SystemExit as end:
        code = code_of(end)
    except AbreastError as error:
        fail(error)
        return 2
    if code == 0:
        recording.end()
    return code


def _policy(spec: StartSpec) -> Policy | None:
    return None if spec.checkpoints is None else Policy(spec.checkpoints, spec.every, spec.keep)


class _Recording:
    """Records a start from the moment when the script has imported Keras."""

    def __init__(self, spec: StartSpec, notes: NoteWriter, stack: ExitStack) -> None:
        self._spec, self._notes, self._stack = spec, notes, stack
        self._ends: Any = None

    def begin(self) -> None:
        from abreast.checking.log import LogWriter
        from abreast.torture.ends import EndRecorder

        seed_keras(with_tensorflow=False)
        self._ends = EndRecorder(LogWriter(Path(self._spec.folder)), self._notes)
        self._stack.enter_context(self._ends.recording())
        for owner, name, value in _noting(self._notes, _policy(self._spec)):
            self._stack.enter_context(replaced(owner, name, value))

    def end(self) -> None:
        if self._ends is not None:
            self._ends.end()
        self._notes.add("done")


def _noting(notes: NoteWriter, policy: Policy | None) -> list[tuple[Any, str, Any]]:
    """Replacements of functions in `checkpoints` that also write notes, and that set the policy of every `fit`."""
    from abreast.checkpoints import folder, which_fit
    from abreast.checkpoints.agreement import Agreement
    from abreast.checkpoints.callback import Checkpoint

    newest_good, steps_done = folder.newest_good, Agreement.steps_done

    class Fit(which_fit._NthFit):
        def __init__(self, policy: Any, bound: Any, placement: Any, until_end: Any) -> None:
            notes.add("devices", placement.num_devices)
            notes.add("deterministic", deterministic.are_used(placement.backend.name, placement.devices))
            super().__init__(policy, bound, placement, until_end)

    @functools.wraps(newest_good)
    def found(folder: Any, prefix: str = "") -> Any:
        result = newest_good(folder, prefix)
        notes.add("from", [prefix, "" if result is None else result[0]])
        return result

    def counted(agreement: Any, number: int) -> None:
        notes.add("steps", number)
        steps_done(agreement, number)

    counting = [(Agreement, "steps_done", counted)] if policy is not None and policy.every.steps == MEASURED else []
    return [
        (which_fit, "_NthFit", Fit),
        (which_fit, "newest_good", found),
        (which_fit, "_policy", lambda callbacks: policy),
        (Checkpoint, "on_train_begin", lambda callback, logs=None: None),
        *counting,
    ]


def noting_saves(notes: NoteWriter) -> AbstractContextManager[None]:
    """Inside, the name of each checkpoint is noted once it is on the disk."""
    write_checkpoint = write.write_checkpoint

    @functools.wraps(write_checkpoint)
    def written(*args: Any, **kwargs: Any) -> Any:
        path = write_checkpoint(*args, **kwargs)
        notes.add("saved", path.name)
        return path

    return replaced(writer, "write_checkpoint", written)
