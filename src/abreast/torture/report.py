"""The result of a campaign, as one table with the problems below it, and as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from abreast.text_table import text_table
from abreast.torture.campaign import Campaign
from abreast.torture.faults import Injection
from abreast.torture.rounds import Round

_HEAD = ("fault", "injected", "fired", "recovered", "wrong")


def counts(found: Campaign) -> dict[str, dict[str, int]]:
    """The counts of each fault. `end`: counts of the rounds. `none`: counts of the undisturbed run with checkpoints."""
    pairs = [(one, each) for one in found.rounds for each in one.injections]
    table = {"none": _row(1, 1, int(not found.alone), int(bool(found.alone)))}
    for fault in found.request.faults:
        if fault == "devices":
            table[fault] = _devices(found)
        else:
            table[fault] = _of([(one, each) for one, each in pairs if each.fault == fault])
    wrong = sum(one.is_wrong for one in found.rounds)
    return table | {"end": _row(len(found.rounds), len(found.rounds), len(found.rounds) - wrong, wrong)}


def _of(pairs: list[tuple[Round, Injection]]) -> dict[str, int]:
    fired = [(one, each) for one, each in pairs if each.fired]
    recovered = sum(not each.problems and not one.problems for one, each in fired)
    return _row(len(pairs), len(fired), recovered, sum(bool(each.problems) for _, each in pairs))


def _devices(found: Campaign) -> dict[str, int]:
    """The counts of rounds that change the devices. A round fired if two starts trained on different numbers of devices."""
    rounds = [one for one in found.rounds if not one.same_devices]
    fired = [one for one in rounds if len(set(one.devices)) > 1]
    return _row(len(rounds), len(fired), sum(not one.is_wrong for one in fired), sum(one.is_wrong for one in rounds))


def _row(injected: int, fired: int, recovered: int, wrong: int) -> dict[str, int]:
    return {"injected": injected, "fired": fired, "recovered": recovered, "wrong": wrong}


def problems(found: Campaign) -> list[str]:
    """All problems, in words."""
    words = [f"undisturbed: {each}" for each in found.alone]
    for one in found.rounds:
        words += [f"round {one.number}, {each.how}: {text}" for each in one.injections for text in each.problems]
        words += [f"round {one.number}, its end: {text}" for text in one.problems]
    return words + [f"{fault} never fired, so nothing is shown" for fault in found.never_fired]


def text(found: Campaign) -> str:
    rows = [_HEAD, *((fault, *map(str, row.values())) for fault, row in counts(found).items())]
    return "\n".join([text_table(rows, numbers=True), *problems(found)])


def as_data(found: Campaign) -> dict[str, Any]:
    return {
        "script": found.request.spec.script,
        "seed": found.request.seed,
        "every": found.every,
        "deterministic_kernels": found.deterministic_kernels,
        "seconds": round(found.seconds, 1),
        "faults": counts(found),
        "rounds": [dataclasses.asdict(one) for one in found.rounds],
        "problems": problems(found),
        "ok": not found.is_wrong,
    }
