"""The first hour of a stranger: every command and block of the README and of getting started, in order, as pasted.

    python tests/first_hour.py --backend jax                  # a fresh clone, environment and home; only that extra
    python tests/first_hour.py --backend jax --installed      # the commands alone, with this Python

It fails at the first wrong turn: a command that fails, or an error or a traceback in its output. It needs nothing except Python.
`ADAPTED` lists each command that runs otherwise than it is shown, as on a machine without GPUs. After the README's ten lines
it prints the time since the first command, and the size of the environment. `PIP_CONSTRAINT` names a file that chooses builds,
as that of PyTorch without CUDA.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/guides/getting-started.md")
# What a machine without GPUs runs in place of a command: a pattern and its replacement; None: nothing, for the reason beside it.
ADAPTED: tuple[tuple[str, str | None], ...] = (
    # For these two, an hour and half a minute on two cores.
    (r"abreast bench resnet50(.*)", r"abreast bench tiny --cpu-devices 2 --devices 2 --rounds 1\1"),
    (r"abreast doctor (.*)", r"abreast doctor --steps 10 \1"),
    (r"pip install .*cuda.*", None),  # for GPUs
    (r"python3 -m venv .*", None),  # the stranger has a fresh environment already
    (r"pip install torch --index-url .*", None),  # only for PyTorch; `PIP_CONSTRAINT` chooses that build
    (r"make (demo|test)\b.*", None),  # they make an environment of their own; the tests are run by them
    (r"(abreast (?:run|check|doctor).*) --devices (\d+)", r"\1 --cpu-devices \2"),
    (r"(abreast (?:run|check)) (?!.*--cpu-devices)(.*)", r"\1 --cpu-devices 2 \2"),
)
WRONG = re.compile(r"Traceback|^error:|abreast: error|No module named|not installed|command not found", re.MULTILINE)
# What a stranger has.
TRAIN = """
import keras, numpy as np
keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x.sum(axis=1, keepdims=True), batch_size=64, epochs=10, verbose=2)
"""


@dataclass(frozen=True)
class Step:
    """A piece of a page to run: `text` in a shell, or in Python."""

    where: str  # as README.md:23
    text: str
    python: bool = False
    installs: bool = False


def steps(page: Path, backend: str) -> Iterator[Step]:
    """The commands and blocks of a page, in order. Prose counts where it says `pip install ...`."""
    text = page.read_text()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```|`(pip install [^`]+)`", text, re.DOTALL | re.MULTILINE):
        language, block, prose = found.groups()
        where = f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}"
        if prose:
            yield from _commands(where, prose, backend)
        elif language == "python":
            yield Step(where, block, python=True)
        elif language == "bash":
            yield from _commands(where, block, backend)
        elif language == "console":
            for line in re.findall(r"^\$ (.*)", block, re.MULTILINE):
                yield from _commands(where, line, backend)


def _commands(where: str, text: str, backend: str) -> Iterator[Step]:
    text = re.sub(r"\s+# .*", "", text).strip()
    text = re.sub(r"\bKERAS_BACKEND=\w+", f"KERAS_BACKEND={backend}", text)
    for pattern, replacement in ADAPTED:
        if re.match(pattern, text):
            if replacement is None:
                return
            text = re.sub(pattern, replacement, text)
    installs = text.startswith("pip install")
    yield Step(where, re.sub(r"\[jax\b", f"[{backend}", text) if installs else text, installs=installs)


class Wrong(Exception):
    pass


class Stranger:
    """Runs steps in the folder of a clone, with a home of its own."""

    def __init__(self, clone: Path, home: Path, binaries: Path) -> None:
        self.clone, self.home = clone, home
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KERAS", "PYTHON", "ABREAST", "VIRTUAL"))
        }
        self.environment = {
            **kept,
            "HOME": str(home),
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }

    def take(self, step: Step) -> float:
        """Run a step; returns its seconds. An `export` stays for the later steps."""
        exported = re.fullmatch(r"export (\w+)=(\S+)", step.text)
        if exported:
            self.environment[exported[1]] = exported[2]
            return 0.0
        if step.python:
            pasted = self.home / "pasted.py"
            pasted.write_text(step.text)
        command = ["python", str(pasted)] if step.python else ["bash", "-euo", "pipefail", "-c", step.text]
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1800,
        )
        if done.returncode or (not step.installs and WRONG.search(done.stdout)):
            raise Wrong(f"{step.where}: exit code {done.returncode}\n{step.text}\n{done.stdout[-4000:]}")
        return time.perf_counter() - began


def prepare(folder: Path) -> None:
    """The script and the photographs that the README takes for granted."""
    (folder / "train.py").write_text(TRAIN)
    for number in range(24):
        picture = folder / "photos" / ("cat" if number % 2 else "dog") / f"{number}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(png(64, bytes([number * 10, 200 - number, 40])))


def png(side: int, colour: bytes) -> bytes:
    """A picture of one colour. Source: PNG specification, section 5."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + colour * side) * side
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def first_hour(backend: str, installed: bool, python: str) -> None:
    with tempfile.TemporaryDirectory(prefix="abreast-first-hour-") as name:
        folder = Path(name)
        clone, home, venv = folder / "abreast", folder / "home", folder / "venv"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        prepare(clone)
        binaries = folder / "bin" if installed else venv / "bin"
        if installed:
            _link_this_python(binaries)
        else:
            subprocess.run([python, "-m", "venv", venv], check=True)
        stranger = Stranger(clone, home, binaries)
        if installed:
            stranger.environment |= {"KERAS_BACKEND": backend, "PYTHONPATH": str(clone / "src")}
        began = time.perf_counter()
        told = False
        for page in PAGES:
            for step in steps(clone / page, backend):
                if installed and (step.installs or step.python):
                    continue  # tests/test_documentation.py runs the Python blocks
                seconds = stranger.take(step)
                print(f"{seconds:6.1f} s  {step.where}  {_first_line(step)}", flush=True)
                if step.python and not told and not installed:
                    told = True
                    print(
                        f"ten lines: {time.perf_counter() - began:.0f} s from `pip install`, {folder_bytes(venv) / 1e6:,.0f} MB"
                    )
        print(f"{backend}: {time.perf_counter() - began:.0f} s, no wrong turn")


def _link_this_python(binaries: Path) -> None:
    binaries.mkdir()
    for name, program in (("abreast", f'"{sys.executable}" -m abreast'), ("python", f'"{sys.executable}"')):
        (binaries / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (binaries / name).chmod(0o755)


def _first_line(step: Step) -> str:
    return next(line for line in step.text.splitlines() if line.strip())[:100]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="jax", choices=("jax", "tensorflow", "torch"))
    parser.add_argument("--installed", action="store_true", help="use this Python and install nothing")
    parser.add_argument("--python", default=shutil.which("python3") or sys.executable, help="for the fresh environment")
    options = parser.parse_args()
    try:
        first_hour(options.backend, options.installed, options.python)
    except Wrong as error:
        print(f"wrong turn: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
