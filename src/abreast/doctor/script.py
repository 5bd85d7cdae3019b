"""`abreast doctor script.py`: run a script up to its first `fit`, and diagnose that call in place of running it.

Imports Keras only after the script has done so.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from abreast import whole_file
from abreast.checkpoints.policy import switched_off
from abreast.doctor.diagnosis import Diagnosis
from abreast.doctor.steps import check_steps
from abreast.errors import LaunchError
from abreast.plain_json import finite
from abreast.run import RunOptions, run_script
from abreast.stderr import tell
from abreast.users_line import users_frame


class ScriptEnded(SystemExit):
    """Ends the script after the diagnosed `fit`, past any `except Exception` of the script."""


def diagnose_script(
    target: str, arguments: Sequence[str], options: RunOptions, *, module: bool = False, steps: int = 30
) -> tuple[int, Diagnosis | None]:
    """The exit code of the script, and the diagnosis of its first `fit`; None if the script failed before it.

    The script's output goes to stderr. Raises `LaunchError` for a script that ends without a `fit`.
    """
    check_steps(steps)
    found: list[Diagnosis] = []
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as until_the_end:
        first = functools.partial(_diagnose_first, found, steps, until_the_end)
        until_the_end.enter_context(switched_off())
        try:
            code = run_script(target, arguments, options, module=module, placed=first)
        except SystemExit as end:
            if not found and end.code not in (None, 0):
                raise
            code = 0
    if not found and code == 0:
        raise LaunchError(
            f"{target} ended without calling fit",
            "the doctor diagnoses `model.fit`; it does not see other training loops",
        )
    return code, found[0] if found else None


def write_json(diagnosis: Diagnosis, path: str | os.PathLike[str]) -> None:
    """Write a whole diagnosis, with null for numbers that JSON does not have; raises `AbreastError` if it cannot be written."""
    text = json.dumps(finite(asdict(diagnosis)), indent=2, allow_nan=False)
    whole_file.write("the diagnosis", text + "\n", path)


def _diagnose_first(found: list[Diagnosis], steps: int, until_the_end: contextlib.ExitStack) -> None:
    """Replace the first `fit` by its diagnosis. After that the script trains no more and overwrites no saved model."""
    import keras

    from abreast.doctor.diagnose import diagnose_call
    from abreast.doctor.keep import saving_elsewhere

    trainer: Any = keras.Model
    plain = trainer.fit

    @functools.wraps(plain)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if found:
            raise ScriptEnded(0)
        trainer.fit = plain
        tell(f"diagnosing the first fit{_where()}; the script ends there")
        found.append(diagnose_call(self, args, kwargs, steps, tell))
        trainer.fit = fit
        until_the_end.enter_context(saving_elsewhere())
        raise ScriptEnded(0)

    trainer.fit = fit
    until_the_end.callback(setattr, trainer, "fit", plain)


def _where() -> str:
    frame = users_frame(sys._getframe())
    return f" ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})" if frame is not None else ""
