"""`abreast env`: prints the facts of `environment_facts.py`, as text to paste into a bug report or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from abreast.backend.registry import BACKENDS, TITLES, title
from abreast.environment_facts import environment_facts
from abreast.stdout import say
from abreast.text_table import text_table
from abreast.units import byte_count, counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the facts as JSON; sizes are in bytes")


def run(options: argparse.Namespace) -> int:
    facts = environment_facts()
    say(json.dumps(facts, indent=2) if options.json else report(facts))
    return 0


def report(facts: dict[str, Any]) -> str:
    """The facts as lines, each with a name and a text."""
    rows = [
        ("abreast", _abreast(facts["abreast"])),
        ("python", "{version} ({implementation}), {executable}".format(**facts["python"])),
        ("system", "{name}, {kernel}, {libc}".format(**facts["system"])),
        *((TITLES[name], _framework(facts["frameworks"][name])) for name in BACKENDS),
        ("packages", ", ".join(f"{name} {version}" for name, version in facts["packages"].items())),
        ("keras.json", _configuration(facts["keras_configuration"])),
        ("backend", _backend(facts["keras_backend"])),
        ("driver", _driver(facts["driver"])),
        *_named("devices", _devices(facts["devices"])),
        ("launcher", _launcher(facts["launcher"])),
        *_named("variables", [_variable(*each) for each in facts["variables"].items()] or ["none"]),
        ("cores", "{usable} of {all}, {model}".format(**facts["cores"])),
        ("memory", _memory(facts["memory"])),
        ("/dev/shm", _memory(facts["shm"])),
    ]
    return text_table(rows)


def _named(name: str, texts: list[str]) -> Iterator[tuple[str, str]]:
    """A row for each text; the first has the name."""
    for number, text in enumerate(texts):
        yield "" if number else name, text


def _abreast(fact: dict[str, Any]) -> str:
    commit = f", commit {fact['commit']}" if "commit" in fact else ""
    return f"{fact['version']}{commit}, {fact['folder']}"


def _framework(fact: dict[str, Any] | None) -> str:
    if fact is None:
        return "not installed"
    return f"{fact['version']} ({fact['package']}), built for {fact['built_for'] or 'the CPU alone'}"


def _configuration(fact: Any) -> str:
    if isinstance(fact, dict):
        return f"backend {fact['backend']}, {fact['file']}"
    return fact or "none"


def _backend(fact: Any) -> str:
    if isinstance(fact, str):
        return fact
    return title(fact["name"]) if fact["why"] is None else fact["why"]


def _driver(fact: Any) -> str:
    if isinstance(fact, str):
        return fact
    return f"{fact['version']}, CUDA up to {fact['cuda']}, {counted(fact['cards'], 'card')}"


def _devices(fact: Any) -> list[str]:
    if isinstance(fact, str):
        return [fact]
    return [f"{device['name']} {device['model']}, {_size(device['memory_bytes'])}" for device in fact]


def _launcher(fact: Any) -> str:
    if isinstance(fact, str):
        return fact
    if fact["source"] == "alone":
        return "none: one process"
    return "{source}: rank {rank} of {size}, {local_size} on host {host}".format(**fact)


def _variable(name: str, value: str) -> str:
    return f"{name}={value}".replace("\n", "\\n")


def _memory(fact: dict[str, Any] | None) -> str:
    return "none" if fact is None else f"{_size(fact['bytes'])}, {_size(fact['free_bytes'])} free"


def _size(num_bytes: int | None) -> str:
    return "unknown" if num_bytes is None else byte_count(num_bytes)
