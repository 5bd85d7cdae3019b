"""The sub-packages of `abreast.records`: imports between them point one way, and no name hides a public name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import abreast.records
from tests.test_architecture import SRC, Imports, circles, imports_of

_ROOT = "abreast.records."


def rooms() -> set[str]:
    return {path.parent.name for path in Path(SRC, "abreast", "records").glob("*/__init__.py")}


def between_rooms(imports: Imports) -> Imports:
    found: Imports = {room: set() for room in rooms()}
    for one, others in imports.items():
        if (room := _room(one)) in found:
            found[room].update({_room(other) for other in others} & found.keys() - {room})
    return found


def _room(module: str) -> str:
    return module.removeprefix(_ROOT).partition(".")[0] if module.startswith(_ROOT) else ""


def test_the_packages_of_records_do_not_import_one_another_in_a_circle() -> None:
    assert len(rooms()) >= 5
    assert circles(between_rooms(imports_of(SRC))) == []


def test_a_circle_is_noticed() -> None:
    planted = imports_of(SRC)
    planted["abreast.records.reading.reader"].add("abreast.records.loading.loader")
    assert circles(between_rooms(planted))


def test_no_package_of_records_has_the_name_of_a_public_function() -> None:
    """The import of such a package would put the package in the place of the function."""
    assert rooms().isdisjoint(abreast.records.__all__)


def test_public_names_are_there_after_their_modules_are_imported() -> None:
    program = (
        "import abreast.records.packing.packer, abreast.records.decoding.decoder; from abreast import records; "
        "print(*(getattr(records, name).__name__ for name in records.__all__))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == abreast.records.__all__


def test_the_options_of_the_commands_load_no_numpy() -> None:
    """A script that `abreast run` starts may want to configure NumPy before it is imported."""
    program = "import abreast.records.packing.command, abreast.records.command, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
