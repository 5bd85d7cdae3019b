"""Runs a cell of a benchmark in its own process: the script again, with `--cell`. Imports only the standard library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def in_a_process(
    script: str, cell: Mapping[str, Any], variables: Mapping[str, str], timeout_seconds: float | None = None
) -> Any:
    """The last line that `script --cell CELL` prints, parsed; `variables` are added to the environment."""
    command = [sys.executable, script, "--cell", json.dumps(cell)]
    done = subprocess.run(
        command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, timeout=timeout_seconds, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])
