"""Checks of many scripts with one import of Keras: sides are forks of a process that has imported it and computed nothing.

`python -m tests.check.forks` reads lines of JSON (a script's text and the options of a check) and answers each with a verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import keras  # noqa: F401  # what every fork needs

from abreast import cli
from abreast.checking import order, process, side
from abreast.checking.command import _side
from abreast.checking.verdict import as_data
from abreast.errors import AbreastError

SIDE_SECONDS = 200


def main() -> None:
    vars(order)["run_side"] = run_in_fork
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            Path("train.py").write_text(asked["script"])
            answers.write(json.dumps(verdict(asked["options"])) + "\n")
            answers.flush()
            os.chdir("/")


def verdict(options: list[str]) -> dict[str, Any]:
    """The JSON that `abreast check OPTIONS train.py` prints."""
    parsed: argparse.Namespace = cli._parser().parse_args(["check", *options, "train.py"])
    try:
        return as_data(order.check_script(_side(parsed), lambda _: None))
    except AbreastError as error:
        return {"outcome": "failed", "said": str(error)}


def run_in_fork(one: side.SideSpec, stdin: process.Stdin, *, shown: bool) -> process.SideRun:
    """Like `process.run_side`."""
    Path(one.folder).mkdir()
    alive, lifeline = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            log = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(lifeline)
            code = side.main(one.as_json(), alive)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(alive)
    try:
        return process._result(one, _wait(child))
    finally:
        os.close(lifeline)


def _wait(child: int) -> int:
    """The exit code; a child that takes too long is ended."""
    deadline = time.monotonic() + SIDE_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
