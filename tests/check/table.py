"""How often `abreast check` is right: `python -m tests.check.table [--only TEXT] [--output FILE]`.

Runs every planted and every exact script once, prints a line of each, and the counts that the documentation states. The
sides are forks of one process per backend (`forks.py`), which saves three in four imports of a framework.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.check.exact import EXACT, Exact
from tests.check.planted import PLANTED, Planted

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 400


@dataclass(frozen=True)
class Checked:
    """The verdict of a check on a script, and whether each part of it is right."""

    case: Planted | Exact
    verdict: dict[str, Any]
    seconds: float

    @property
    def difference(self) -> dict[str, Any]:
        return self.verdict.get("difference") or {}

    @property
    def found(self) -> bool:
        return self.verdict.get("outcome") == "differs"

    @property
    def place(self) -> bool:
        """Whether the first step is right, and the variable is named."""
        assert isinstance(self.case, Planted)
        names = [part["name"] for part in self.difference.get("parts", ())]
        named = any(re.search(self.case.variable, name) for name in names)
        return self.difference.get("step") in self.case.steps and named

    @property
    def reason(self) -> bool:
        assert isinstance(self.case, Planted)
        return self.first_reason == self.case.reason

    @property
    def first_reason(self) -> str:
        return str(self.verdict["reasons"][0]["name"]) if self.verdict.get("reasons") else ""

    def line(self) -> str:
        case, said = self.case, self.verdict.get("outcome", "failed")
        if isinstance(case, Exact):
            largest = self.verdict.get("largest", {}).get("difference", 0.0)
            return f"{case.backend:<11}{case.name:<24}{said:<9}{f'largest {largest:.0e}':<90}{self.seconds:5.0f} s"
        right = " ".join(
            name if good else f"NOT {name}" for name, good in (("place", self.place), ("reason", self.reason))
        )
        where = f"step {self.difference.get('step')}, {self.difference.get('variable')}"
        return f"{case.backend:<11}{case.name:<24}{said:<9}{where:<44.42}{self.first_reason:<26}{right:<20}{self.seconds:5.0f} s"


def check(case: Planted | Exact) -> Checked:
    """Run `abreast check` on a script, in a folder of its own, as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(case.text(str(ROOT)))
        start = time.monotonic()
        done = _run(case, folder)
        seconds = time.monotonic() - start
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        verdict = {"outcome": "failed", "said": done.stderr[-1500:]}
    return Checked(case, verdict, seconds)


class Server:
    """A process of `forks.py`, started for its first case."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._process: subprocess.Popen[str] | None = None

    def check(self, case: Planted | Exact) -> Checked:
        start = time.monotonic()
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        options = ["--backend", case.backend, *case.options]
        process.stdin.write(json.dumps({"script": case.text(str(ROOT)), "options": options}) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline() or '{"outcome": "failed", "said": "the server died"}'
        return Checked(case, json.loads(answer), time.monotonic() - start)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            environment = _environment(tempfile.gettempdir()) | {"KERAS_BACKEND": self._backend}
            environment["PYTHONPATH"] += f":{ROOT}"
            self._process = subprocess.Popen([sys.executable, "-m", "tests.check.forks"], env=environment, **pipes)  # type: ignore[call-overload]
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


def _run(case: Planted | Exact, folder: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "abreast", "check", "--json", "--backend", case.backend, *case.options, "train.py"]
    limits = {"timeout": TIMEOUT_SECONDS, "check": False, "capture_output": True, "text": True}
    return subprocess.run(program, cwd=folder, env=_environment(folder), stdin=subprocess.DEVNULL, **limits)  # type: ignore[call-overload,no-any-return]


def _environment(home: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KERAS_", "ABREAST_"))},
        "CUDA_VISIBLE_DEVICES": "",
        "KERAS_HOME": home,
        "PYTHONPATH": str(ROOT / "src"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose backend and name have this pattern")
    parser.add_argument("--output", help="append a JSON line per case")
    options = parser.parse_args()
    servers: dict[str, Server] = {}
    every: tuple[Planted | Exact, ...] = (*PLANTED, *EXACT)
    wanted = [case for case in every if re.search(options.only, f"{case.backend} {case.name}")]
    results = []
    for case in wanted:
        server = servers.setdefault(case.backend, Server(case.backend))
        result = server.check(case)
        results.append(result)
        print(result.line(), flush=True)
        if result.verdict.get("outcome") == "failed":
            print(result.verdict["said"], flush=True)
        if options.output:
            with Path(options.output).open("a") as file:
                file.write(json.dumps({"backend": case.backend, "name": case.name, **result.verdict}) + "\n")
    for server in servers.values():
        server.close()
    print(summary(results))


def summary(results: list[Checked]) -> str:
    """The counts."""
    planted = [result for result in results if isinstance(result.case, Planted)]
    exact = [result for result in results if isinstance(result.case, Exact)]
    kinds = len({result.case.kind for result in planted if isinstance(result.case, Planted)})
    counts = [sum(getattr(result, what) for result in planted) for what in ("found", "place", "reason")]
    alarms = sum(result.verdict.get("outcome") != "equal" for result in exact)
    return (
        f"{len(planted)} planted differences of {kinds} kinds: {counts[0]} found, first step and variable right in "
        f"{counts[1]}, reason in {counts[2]}; {len(exact)} exact scripts: {alarms} alarms"
    )


if __name__ == "__main__":
    main()
