"""Slow tests take turns: each commit runs a third of them on one backend, a ninth of those without one; nine turns run all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.harness.client import BACKENDS
from tests.harness.in_turn import others


def item(name: str, backend: str | None, marked: bool = True, *arguments: int) -> Any:
    callspec = SimpleNamespace(params={"backend": backend} if backend else {})
    mark = SimpleNamespace(args=arguments) if marked else None
    return SimpleNamespace(nodeid=f"{name}::test[{backend}]", callspec=callspec, get_closest_marker=lambda _: mark)


SLOW = [item(name, backend) for name in ("first", "second") for backend in BACKENDS]


def run(turn: int) -> set[str]:
    left_out = others(SLOW, turn)
    return {each.nodeid for each in SLOW if each not in left_out}


def test_each_file_runs_on_one_backend_and_not_all_on_the_same() -> None:
    assert run(0) == {"first::test[jax]", "second::test[tensorflow]"}


def test_nine_turns_run_everything() -> None:
    assert set().union(*(run(turn) for turn in range(4, 13))) == {each.nodeid for each in SLOW}


def test_each_commit_runs_a_third_of_the_tests() -> None:
    many = [item(f"file {number}", backend) for number in range(18) for backend in BACKENDS]
    runs = [[each for each in many if each not in others(many, turn)] for turn in range(7, 16)]
    assert [len(each) for each in runs] == [6] * 9
    assert {each.nodeid.split("[")[1] for each in runs[0]} == {f"{backend}]" for backend in BACKENDS}


def test_a_ninth_of_the_tests_without_a_backend_runs() -> None:
    pure = [item(name, None) for name in "abcdefghij"]
    runs = [[each for each in pure if each not in others(pure, turn)] for turn in range(1, 10)]
    assert sorted(len(each) for each in runs) == [1] * 8 + [2]
    assert sorted(each.nodeid for run in runs for each in run) == [each.nodeid for each in pure]


def test_a_test_of_every_second_commit_runs_on_each_backend_within_six_turns() -> None:
    frequent = [item("frequent", backend, True, 2) for backend in BACKENDS]
    runs = [[each for each in frequent if each not in others(frequent, turn)] for turn in range(6)]
    assert [len(run) for run in runs] == [1, 1, 1, 0, 0, 0]
    assert [each for run in runs for each in run] == frequent
