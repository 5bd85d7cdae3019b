"""One side of a check, in a process of its own: `python -m abreast.checking.side SIDE`, with a `SideSpec` as JSON.

The script runs as under `abreast run`, with plain Keras or placed. Its log and its facts are written to a folder. Keras is
imported only after the script has done so.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from abreast import deterministic, typed_command
from abreast.backend.registry import current_backend
from abreast.checking.seeds import seed_before_keras, seed_keras
from abreast.checkpoints.policy import switched_off
from abreast.errors import AbreastError
from abreast.run import RunOptions, run_script
from abreast.stderr import each_once, fail
from abreast.taken_over import taken_over

# Exit code of a process that ends because its parent has ended.
_ORPHANED = 1


@dataclass(frozen=True)
class SideSpec:
    """The script, the options to run it, and the folder for its log.

    `moves`: move the weights by a rounding before each step. `printed`: the lines that abreast printed in an earlier side.
    """

    script: str
    arguments: tuple[str, ...]
    module: bool
    options: RunOptions
    placed: bool
    steps: int
    folder: str
    float64: bool = False
    no_random: bool = False
    moves: bool = False
    printed: tuple[str, ...] = ()

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> SideSpec:
        fields = json.loads(text)
        fields |= {name: tuple(fields[name]) for name in ("arguments", "printed")}
        return SideSpec(**fields | {"options": RunOptions(**fields["options"])})


def main(text: str, lifeline: int) -> int:
    """Run a side; returns the script's exit code."""
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    side = SideSpec.of(text)
    seed_before_keras()
    outcome: dict[str, Any] = {"code": 1, "error": None, "printed": each_once(side.printed)}
    with typed_command.typed("check", side.script), ExitStack() as stack:
        recording = _Recording(side, stack, outcome)
        try:
            outcome["code"] = _run(side, recording)
        finally:
            recording.end()
            (Path(side.folder) / "outcome.json").write_text(json.dumps(outcome))
    return int(outcome["code"])


def _run(side: SideSpec, recording: _Recording) -> int:
    try:
        with switched_off():
            return run_script(
                side.script,
                side.arguments,
                side.options,
                module=side.module,
                placed=recording.begin,
                plain=not side.placed,
                failed=recording.failed,
            )
    except SystemExit as end:
        return code_of(end)
    except AbreastError as error:
        recording.failed(error)
        if side.placed:  # of the plain side, the caller prints it
            fail(error)
        return 2


def code_of(end: SystemExit) -> int:
    """The exit code of a script; a text is printed, as Python does."""
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
        return 1
    return int(end.code or 0)


class _Recording:
    """Records a side from the moment when the script has imported Keras."""

    def __init__(self, side: SideSpec, stack: ExitStack, outcome: dict[str, Any]) -> None:
        self._side, self._stack, self._outcome = side, stack, outcome
        self._recorder: Any = None
        self._devices: tuple[str, ...] = ()

    def begin(self) -> None:
        import keras

        from abreast.checking import changes
        from abreast.checking.log import LogWriter
        from abreast.checking.recorder import EventRecorder

        side = self._side
        seed_keras()
        if side.float64:
            changes.compute_in_float64()
        self._recorder = EventRecorder(LogWriter(Path(side.folder)), side.steps, side.no_random, side.moves)
        self._recorder.facts["backend"] = keras.backend.backend()
        self._devices = _plain_devices(side.options)
        self._keep_announcements()
        self._stack.enter_context(self._recorder.recording())

    def _keep_announcements(self) -> None:
        """Note the differences that abreast announces, each once."""
        from abreast.exact.warn_once import LISTENERS

        announced = self._recorder.facts.setdefault("announced", [])

        def keep(message: str) -> None:
            if message not in announced:
                announced.append(message)

        LISTENERS.append(keep)

    def failed(self, error: BaseException) -> None:
        self._outcome["error"] = {
            "kind": type(error).__name__,
            "message": str(error)[:2000],
            "refused": isinstance(error, AbreastError),
        }

    def end(self) -> None:
        if self._recorder is None:
            return
        from abreast.placed_models import placement_facts

        facts = self._recorder.facts
        facts |= placement_facts() | {"taken_over": taken_over()}
        devices = facts["devices"] if self._side.placed else self._devices
        facts["deterministic_kernels"] = deterministic.are_used(facts["backend"], devices)
        self._recorder.end()
        (Path(self._side.folder) / "facts.json").write_text(json.dumps(facts))


def _plain_devices(options: RunOptions) -> tuple[str, ...]:
    """The devices that plain Keras finds. `run_script` has asked the framework for them before, so nothing starts here."""
    return ("cpu:0",) if options.cpu_devices is not None else current_backend().device_names()


def _end_with_parent(lifeline: int) -> None:
    """End this process after its parent's end, because no process reads the log then."""
    os.read(lifeline, 1)
    os._exit(_ORPHANED)


if __name__ == "__main__":
    code = main(sys.argv[1], int(sys.argv[2]))
    sys.stdout.flush()
    sys.exit(code)
