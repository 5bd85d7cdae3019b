"""The command of abreast that runs a script in this process, and an option on the wrong side of the script, for hints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_name = "run"
_script: str | None = None
_late_option: str | None = None


@contextmanager
def typed(name: str, script: str | None = None, late_option: str | None = None) -> Iterator[None]:
    """Inside, hints name this command. `late_option`: an option of abreast among the arguments of the script."""
    global _name, _script, _late_option
    before = _name, _script, _late_option
    _name, _script, _late_option = name, script, late_option
    try:
        yield
    finally:
        _name, _script, _late_option = before


def simulating(count: int | str) -> str:
    """The command that simulates this many devices, such as `abreast run --cpu-devices 4`."""
    return f"abreast {_name} --cpu-devices {count}"


def under_torchrun() -> str:
    """The words after torchrun's options that start this script again."""
    if _script is not None:
        return f"--no-python abreast {_name} {_script}"
    return os.path.basename(sys.argv[0]) or "script.py"


def late_option_hint() -> str | None:
    """A hint about an option of abreast that went to the script; None without such an option."""
    if _late_option is None:
        return None
    return (
        f"{_late_option} comes after the script, which gets it; options of abreast come before the script, "
        f"as in `{simulating('N')} {_script}`"
    )
