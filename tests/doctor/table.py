"""`docs/reference/doctor.md`, made of `benchmarks/results/doctor.jsonl` by `python -m tests.doctor.table [--check]`."""

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

`abreast doctor` and `abreast.diagnose` name these causes. See [why is it slow](../guides/doctor.md) for how they are found.

| Cause | What it means | What speaks for it |
|---|---|---|
| `slow-reading` | the source waits for files or the network | its threads have a batch in hand and use no processor |
| `slow-decoding` | the source decodes or decompresses | its threads are seen in decoders, by their stacks |
| `slow-python` | Python of yours makes the batches, in `__getitem__` or a generator | its threads are seen there |
| `slow-source` | a library makes the batches, and no decoder | its threads are seen there |
| `too-few-workers` | more workers were tried, and the devices waited less | the trial |
| `gil` | several workers together use one core: they take turns in Python | processor time over time |
| `copy-bound` | floats that are whole numbers up to 255, or copies from memory that is not pinned | a trial with `uint8`; GB/s |
| `small-batch` | a step costs much that does not depend on its rows | a trial with twice the rows |
| `all-reduce-bound` | the sums of gradients take long beside the computing | the same sums alone |
| `host-bound` | Python runs the step operation by operation, or steps are very short | a trial, compiled; many steps per call |
| `slow-callbacks` | callbacks or the progress bar | a trial without them; the time of each |
| `recompilation` | batches of ever new shapes | a trial with one shape; the shapes |
| `straggler` | a device other than the first is slower than the others | devices added one by one |
| `unequal-shards` | rows do not divide by the devices | a trial with rows that do |
| `validation` | validation takes more than 30% of an epoch | some of its steps, timed |
| `short-epochs` | a fifth of the time passes between epochs | the time between their last and first steps |
| `precision` | float32 on GPUs with tensor cores | a trial in bfloat16 |
| `batch-norm` | `batch_norm="local"` over fewer than 16 rows | the numbers of rows; costs no time |
| `learning-rate` | an optimizer's default rate for 1024 rows or more on several devices | the numbers; costs no time |

A finding costs at least a tenth of a step (`all-reduce-bound` and `straggler` 20%, `straggler` of simulated devices 50%,
`small-batch` and `validation` 30%), and three turns in four agree on it.

## Planted causes

Each case is a run with one thing wrong, or with nothing; the doctor must name it first. Where the fix is known, it is
measured by other code, in turns with the diagnosis: the machine drifts. Made by `python -m tests.doctor.planted` and
`python -m tests.doctor.table`; do not edit.
"""
_NOT_PLANTED = """
Not planted, because simulated devices on a CPU have neither: copies from pageable memory and tensor cores. Their rules are
tested on made-up facts. Nothing is promised for a `straggler` among simulated devices, which share their cores.
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
    """At which commits they were measured, on what."""
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
            sys.exit(f"{PAGE.name} is not what the lines say\nhint: run `python -m tests.doctor.table`")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
