"""The table of `make gpu`: it has every part, and failures are repeated below it."""

from __future__ import annotations

from benchmarks.gpu.rows import Row
from benchmarks.gpu.table import report

ROWS = [
    Row("contract", "jax", 1, "gpu", "passed", "18 of 18 jobs equal", seconds=61.2, absent=("no time for one job",)),
    Row("contract", "jax", 2, "gpu", "missing", why="a second GPU"),
    Row("bench", "jax", 2, "gpu", "missing", why="a second GPU"),
    Row("bench", "torch", 1, "gpu", "failed", why="RuntimeError: no\nmore", seconds=3.0),
    Row("doctor", "torch", 1, "gpu", "left out", why="3 s were left"),
]


def test_every_row_is_in_the_table_and_failures_are_below_it() -> None:
    assert report(ROWS, {("contract", "jax", 1): "9 of 9 jobs equal"}) == (
        "what      backend  devices  result    seconds  figure               figure on the CPU\n"
        "contract  jax      1 gpu    passed    61       18 of 18 jobs equal  9 of 9 jobs equal\n"
        "contract  jax      2 gpu    missing            a second GPU\n"
        "bench     jax      2 gpu    missing            a second GPU\n"
        "bench     torch    1 gpu    failed    3        RuntimeError: no\n"
        "doctor    torch    1 gpu    left out           3 s were left\n"
        "\n"
        "missing:\n"
        "  a second GPU (contract, bench on jax)\n"
        "\n"
        "not tried:\n"
        "  no time for one job (contract on jax)\n"
        "\n"
        "left out:\n"
        "  3 s were left (doctor on torch)\n"
        "\n"
        "failed:\n"
        "  bench torch 1 gpu: RuntimeError: no\nmore\n"
        "\n"
        "1 passed, 1 failed, 2 missing, 1 left out"
    )


def test_a_long_figure_is_cut() -> None:
    figure = "x" * 100
    assert report([Row("a", "", 0, "gpu", "passed", figure)], {}).count("x") == 57
