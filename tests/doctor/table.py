"""Makes `docs/reference/doctor.md` from `benchmarks/results/doctor.jsonl`: `python -m tests.doctor.table [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import lines
from tests.doctor.cases import CASES
from tests.doctor.planted import BENCHMARK, TOLERANCE
from tests.harness.client import ROOT

PAGE = ROOT / "docs" / "reference" / "doctor.md"

_CAUSES = """# What the doctor knows

`abreast doctor` and `abreast.diagnose` name these causes. [Why is it slow?](../guides/doctor.md) explains how they find them.

| Cause | Meaning | Evidence |
|---|---|---|
| `slow-reading` | the source waits for files or the network | its threads work on a batch and use no processor |
| `slow-decoding` | the source decodes or decompresses | the stacks of its threads are in decoders |
| `slow-python` | your own Python code makes the batches, in `__getitem__` or a generator | the stacks of its threads are there |
| `slow-source` | a library that is not a decoder makes the batches | the stacks of its threads are there |
| `too-few-workers` | the devices wait less with more workers | a trial with more workers |
| `gil` | several workers together use one core: they take turns in Python | processor time over elapsed time |
| `copy-bound` | floats that are whole numbers up to 255, or copies from memory that is not pinned | a trial with `uint8`; GB/s |
| `small-batch` | a large part of a step's cost does not depend on its rows | a trial with twice the rows |
| `all-reduce-bound` | the all-reduces of gradients take long compared with the computing | the same all-reduces alone |
| `host-bound` | Python runs the step operation by operation, or steps are very short | a trial, compiled; many steps per call |
| `slow-callbacks` | callbacks or the progress bar | a trial without them; the time of each |
| `recompilation` | the shapes of batches keep changing | a trial with one shape; the shapes |
| `straggler` | a device other than the first is slower than the others | devices added one by one |
| `unequal-shards` | rows do not divide by the devices | a trial with rows that do |
| `validation` | validation takes more than 30% of an epoch | some of its steps, timed |
| `short-epochs` | a fifth of the time passes between epochs | the time between their last and first steps |
| `precision` | float32 on GPUs with tensor cores | a trial in bfloat16 |
| `batch-norm` | `batch_norm="local"` over fewer than 16 rows | the numbers of rows; costs no time |
| `learning-rate` | an optimizer's default rate for 1024 rows or more on several devices | the numbers; costs no time |

A finding costs at least a tenth of a step, and three turns in four confirm it. The limit is 20% for `all-reduce-bound` and
`straggler`, 50% for `straggler` on simulated devices, and 30% for `small-batch` and `validation`.

## Planted causes

Each case is a run with one planted cause, or with none; the doctor must name the cause first. If a fix is known, other code
measures it, in turns with the diagnosis, because the machine drifts. Made by `python -m tests.doctor.planted` and
`python -m tests.doctor.table`; do not edit.
"""
_NOT_PLANTED = """
Copies from pageable memory and tensor cores are not planted: simulated devices on a CPU have neither. Their rules are
tested with invented facts. A `straggler` among simulated devices has no promised gain, because they share their cores.
"""


def page() -> str:
    newest = {line["case"]: line for line in lines.read(BENCHMARK)}
    cases = [newest[name] for name in CASES if name in newest]
    parts = [_CAUSES]
    if cases:
        parts += [_summary(cases), _table(cases), _origins(cases)]
    return "\n".join([*parts, _NOT_PLANTED.strip(), ""])


def _summary(cases: Sequence[dict[str, Any]]) -> str:
    planted = [case for case in cases if case["cause"] is not None]
    healthy = [case for case in cases if case["cause"] is None]
    errors = [abs(case["error"]) for case in planted if case.get("error") is not None]
    kept = sum(error <= TOLERANCE for error in errors)
    return (
        f"{sum(case['named'] for case in planted)} of {len(planted)} planted causes are named first; "
        f"{sum(not case['named'] for case in healthy)} of {len(healthy)} healthy runs get an alarm; "
        f"{kept} of {len(errors)} promises are within {100 * TOLERANCE:.0f}% of what the fix measures.\n"
    )


def _origins(cases: Sequence[dict[str, Any]]) -> str:
    """The commits, machine and versions of the measurements."""
    commits, machine, versions = {case["commit"]: None for case in cases}, cases[-1]["machine"], cases[-1]["versions"]
    where = f"{machine['system']}, {machine['cores']} cores"
    what = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"Measured at {' and '.join(commits)} on {where}, with {what}.\n"


def _table(cases: Sequence[dict[str, Any]]) -> str:
    head = ("case", "planted", "named first", "lost of each step", "promised rows/s", "measured", "off by")
    rows = [head, ("---",) * len(head), *map(_row, cases)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows) + "\n"


def _row(case: dict[str, Any]) -> tuple[str, ...]:
    found = case.get("findings") or []
    if not found:
        named, lost, after = "failed" if "failed" in case else "nothing", "", None
    else:
        named, after = found[0]["cause"], found[0]["rows_per_second_after"]
        lost = f"{1000 * found[0]['lost_seconds']:.1f} of {1000 * case['step_seconds']:.1f} ms"
    fixed = case.get("fixed_rows_per_second") if case.get("error") is not None else None
    off = f"{100 * case['error']:+.0f}%" if case.get("error") is not None else ""
    numbers = (f"{value:,.0f}" if value else "" for value in (after, fixed))
    mark = "" if case["named"] else " **(wrong)**"
    return (f"`{case['case']}`", case["cause"] or "nothing", f"{named}{mark}", lost, *numbers, off)


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit(f"{PAGE.name} does not match the lines\nhint: run `python -m tests.doctor.table`")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
