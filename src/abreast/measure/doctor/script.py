"""`abreast doctor script.py`: run a script up to its first `fit`, and diagnose that call in its place.

Imports `run`; Keras once the script has.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from abreast.errors import AbreastError, DataError, LaunchError
from abreast.measure.diagnosis import Diagnosis
from abreast.run import RunOptions, run_script

LEAST_STEPS = 5


class ScriptEnded(SystemExit):
    """Ends the script behind its diagnosed `fit`, past its `except Exception`."""


def diagnose_script(
    target: str, arguments: Sequence[str], options: RunOptions, *, module: bool = False, steps: int = 30
) -> tuple[int, Diagnosis | None]:
    """The exit code of the script, and the diagnosis of its first `fit`; None when the script failed before it.

    What the script prints goes to stderr. Raises `LaunchError` for a script that ends without a `fit`.
    """
    check_steps(steps)
    found: list[Diagnosis] = []
    with contextlib.redirect_stdout(sys.stderr):
        try:
            code = run_script(target, arguments, options, module=module, placed=lambda: _diagnose_first(found, steps))
        except SystemExit as end:
            if not found and end.code not in (None, 0):
                raise
            code = 0
    if not found and code == 0:
        raise LaunchError(
            f"{target} ended without a call of fit", "the doctor looks at `model.fit`; a loop of your own is not seen"
        )
    return code, found[0] if found else None


def check_steps(steps: Any) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < LEAST_STEPS:
        raise DataError(f"steps={steps!r}", f"ask for at least {LEAST_STEPS} steps")


def write_json(diagnosis: Diagnosis, path: str | os.PathLike[str]) -> None:
    """Write everything that a diagnosis holds; raises `AbreastError` where that fails."""
    try:
        Path(path).write_text(json.dumps(asdict(diagnosis), indent=2) + "\n")
    except OSError as error:
        raise AbreastError(
            f"cannot write {path}: {error.strerror or error}", "give a file that can be written"
        ) from error


def _diagnose_first(found: list[Diagnosis], steps: int) -> None:
    """Put the doctor in the place of `fit`, for one call."""
    import keras

    from abreast.measure.doctor.diagnose import diagnose_call

    trainer: Any = keras.Model
    plain = trainer.fit

    @functools.wraps(plain)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        trainer.fit = plain
        print(f"abreast: diagnosing the first fit{_where()}; the script ends there", file=sys.stderr)
        found.append(diagnose_call(self, args, kwargs, steps))
        raise ScriptEnded(0)

    trainer.fit = fit


def _where() -> str:
    own = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    calls = [call for call in traceback.extract_stack() if not call.filename.startswith(own)]
    calls = [call for call in calls if f"{os.sep}keras{os.sep}" not in call.filename]
    return f" ({os.path.basename(calls[-1].filename)}:{calls[-1].lineno})" if calls else ""
