"""`Folder`: a folder with scripts, and commands that run in it as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.harness.client import SCRIPTS_PATH


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@dataclass
class Folder:
    """A folder with scripts, and a way to run a command in it as a user would."""

    path: Path

    def write(self, name: str, text: str) -> str:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))
        return name

    def python(self, *arguments: str, **environ: str) -> Result:
        return self._run([sys.executable, *arguments], environ=environ)

    def abreast(self, *arguments: str, **environ: str) -> Result:
        return self.python("-m", "abreast", *arguments, **environ)

    def bash(self, command: str, seconds: int = 120) -> Result:
        return self._run(["bash", "-c", command], seconds=seconds)

    def _run(self, command: list[str], *, seconds: int = 120, environ: dict[str, str] | None = None) -> Result:
        environment = self.environ(**environ or {})
        done = subprocess.run(
            command, cwd=self.path, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def environ(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KERAS_", "ABREAST_"))}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "KERAS_HOME": str(self.path)}
        return {**kept, "PYTHONPATH": SCRIPTS_PATH, **quiet, **more}
