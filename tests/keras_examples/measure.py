"""`KERAS_IO=/path python -m tests.keras_examples.measure` runs every example, with plain Keras and placed, and keeps verdicts.

Lines go to `benchmarks/results/keras_examples.jsonl`, one per example and backend. The page
`docs/reference/keras-examples.md` is made each time; `--page` only makes the page. Imports no framework.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from abreast import provenance
from tests.harness.client import BACKENDS, ROOT
from tests.keras_examples import catalogue, runs

OUTPUT = ROOT / "benchmarks" / "results" / "keras_examples.jsonl"
PAGE = ROOT / "docs" / "reference" / "keras-examples.md"
_HEAD = """# Keras's examples

Made by `KERAS_IO=/path python -m tests.keras_examples.measure`; do not edit. `/path` holds `examples/keras_io` of
keras-team/keras before its commit e5dad39059 (examples of keras.io, converted to Keras 3), or a clone of keras-io.

Examples of keras.io run with small invented data, two epochs of three batches per `fit`, once with Python and once with
`abreast run --cpu-devices 4`. The results of every `fit`, `evaluate`, `predict` and `train_on_batch` are compared; the table
shows the largest relative difference. On TensorFlow and PyTorch, where each replica draws its own random numbers, random layers
are switched off on both sides. If float32 differs by more than 2e-3, both sides run again in float64: a deep model makes
rounding large within a few steps. If float64 differs too, plain Keras runs twice: for example, a parallel `map` of `tf.data`
that draws numbers does not repeat.

"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.keras_examples.measure", description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default=",".join(BACKENDS), help="names, separated by commas")
    parser.add_argument("--only", nargs="*", default=[], help="names of examples")
    parser.add_argument("--page", action="store_true", help="only make the page")
    options = parser.parse_args(arguments)
    if not options.page:
        _measure(options.backends.split(","), options.only)
    PAGE.write_text(page(read()))
    return 0


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in OUTPUT.read_text().splitlines()] if OUTPUT.exists() else []


def _measure(backends: Sequence[str], only: Sequence[str]) -> None:
    folder = Path(os.environ["KERAS_IO"])
    commit = provenance.commit(ROOT, "src", "tests/keras_examples") or "unknown"
    for example in catalogue.EXAMPLES:
        script = catalogue.find(folder, example.name)
        if script is None or (only and example.name not in only):
            continue
        for backend in (name for name in example.backends if name in backends):
            verdict = runs.run(script, backend)
            print(f"{backend}: {example.name}: {verdict}", file=sys.stderr)
            _keep(
                {
                    "example": example.name,
                    "backend": backend,
                    **asdict(verdict),
                    **provenance.origin_of(provenance.command(), commit),
                }
            )


def _keep(line: dict[str, Any]) -> None:
    """Put a line in place of the older line of the same example and backend."""
    kept = [one for one in read() if (one["example"], one["backend"]) != (line["example"], line["backend"])]
    new = sorted([*kept, line], key=lambda one: (one["example"], one["backend"]))
    OUTPUT.write_text("".join(json.dumps(one) + "\n" for one in new))


def page(found: Sequence[dict[str, Any]]) -> str:
    counts = Counter((line["backend"], line["verdict"]) for line in found)
    verdicts = ("equal", "equal in float64", "announced", "refused", "different", "failed", "not repeatable", "not run")
    rows = [[name, *(str(counts[name, verdict]) for verdict in verdicts)] for name in BACKENDS]
    run = f"{len({line['example'] for line in found})} of the {len(catalogue.EXAMPLES)} examples have been run so far.\n\n"
    parts = [_HEAD, run, _table(["backend", *verdicts], rows), "\n"]
    parts += [_table(["example", "backend", "verdict", "difference", "calls", "where"], [_row(line) for line in found])]
    return "".join(parts)


def _row(line: dict[str, Any]) -> list[str]:
    difference = "" if line["difference"] is None else f"{line['difference']:.0e}"
    return [
        line["example"],
        line["backend"],
        line["verdict"],
        difference,
        str(line["calls"]),
        _explained(line).replace("\n", " "),
    ]


def _explained(line: dict[str, Any]) -> str:
    """The place of the largest difference, and its reason, if that is known."""
    reason = catalogue.REASONS.get((line["example"], line["backend"]))
    return f"{line['where']}: {reason}" if reason and line["verdict"] in ("different", "failed") else line["where"]


def unexplained(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of examples that differ without a reason in the catalogue."""
    wrong = [line for line in found if line["verdict"] in ("different", "failed")]
    return [line for line in wrong if (line["example"], line["backend"]) not in catalogue.REASONS]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines_ = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in lines_)


if __name__ == "__main__":
    sys.exit(main())
