"""Slow tests take turns: each commit runs a sixth of them on one backend, an eighteenth of those without one."""

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


def test_eighteen_turns_run_everything() -> None:
    assert set().union(*(run(turn) for turn in range(4, 22))) == {each.nodeid for each in SLOW}


def test_each_commit_runs_a_sixth_of_the_tests() -> None:
    many = [item(f"file {number}", backend) for number in range(36) for backend in BACKENDS]
    runs = [[each for each in many if each not in others(many, turn)] for turn in range(7, 25)]
    assert [len(each) for each in runs] == [6] * 18
    assert {each.nodeid.split("[")[1] for each in runs[0]} == {f"{backend}]" for backend in BACKENDS}


def test_an_eighteenth_of_the_tests_without_a_backend_runs() -> None:
    pure = [item(name, None) for name in "abcdefghij"]
    runs = [[each for each in pure if each not in others(pure, turn)] for turn in range(1, 19)]
    assert {len(each) for each in runs} == {0, 1}
    assert sorted(each.nodeid for run in runs for each in run) == [each.nodeid for each in pure]


def test_a_test_of_every_commit_runs_on_one_backend_in_each() -> None:
    constant = [item("constant", backend, True, 1) for backend in BACKENDS]
    runs = [[each for each in constant if each not in others(constant, turn)] for turn in range(3)]
    assert [each for run in runs for each in run] == constant


def test_a_test_of_every_second_commit_runs_on_each_backend_within_six_turns() -> None:
    frequent = [item("frequent", backend, True, 2) for backend in BACKENDS]
    runs = [[each for each in frequent if each not in others(frequent, turn)] for turn in range(6)]
    assert [len(run) for run in runs] == [1, 1, 1, 0, 0, 0]
    assert [each for run in runs for each in run] == frequent
