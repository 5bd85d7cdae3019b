"""Reading files of others runs no code, opens no other file, and takes no more memory than its images."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.client import ROOT
from tests.records.shards import KINDS, sources

# The first pack imports what is imported late; what the second one does is listened to.
_LISTEN = """
import os, sys
from pathlib import Path
from abreast.records import pack
source, place = sys.argv[1], Path(sys.argv[2])
pack(source, place / "first", threads=1)
heard = []
BANNED = ("exec", "compile", "pickle.", "marshal.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.",
          "socket.", "ctypes.", "import", "code.")

def listen(event, arguments):
    if event.startswith(BANNED):
        heard.append(f"{event} {arguments!r:.2000}")
    if event == "open" and isinstance(arguments[0], str | os.PathLike | bytes):
        path = Path(os.fsdecode(arguments[0])).resolve()
        python = path.is_relative_to(sys.prefix) or path.is_relative_to(sys.base_prefix)  # for the packages' versions
        if not path.is_relative_to(place) and not python:
            heard.append(f"open {path}")

sys.addaudithook(listen)
pack(source, place / "second", threads=1)
if len(sys.argv) > 3:
    compile("1", "x", "eval")
print("\\n".join(heard))
"""


def listened(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path])}
    command = [sys.executable, "-c", _LISTEN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "arrays"])
def test_reading_a_source_runs_nothing_and_opens_nothing_else(tmp_path: Path, kind: str) -> None:
    heard = listened(str(sources(tmp_path)[kind]), str(tmp_path)).splitlines()
    parsers = [line for line in heard if line.startswith("subprocess.Popen") and "parquet_child.py" in line]
    assert bool(parsers) == (kind == "parquet")  # its parser is a process with limits
    assert [line for line in heard if line not in (*parsers, *["open /dev/null"][: len(parsers)])] == []


def test_the_test_above_notices_code_that_is_compiled(tmp_path: Path) -> None:
    assert "compile" in listened(str(sources(tmp_path)["tar"]), str(tmp_path), "and compile")


def test_a_source_of_many_images_is_not_held_in_memory(tmp_path: Path) -> None:
    """600 MB of records in 60, which are holes in a file: the reader takes one after another."""
    script = (
        "import resource, struct, sys\nfrom abreast.records.sources.choose import source_of\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(sum(len(item.image) for item in source_of(sys.argv[1]).items(0)))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    record = 10_000_000
    with (tmp_path / "a.rec").open("wb") as file:
        for i in range(60):
            file.seek(i * (record + 8))
            file.write(b"\x0a\x23\xd7\xce" + record.to_bytes(4, "little"))
        file.truncate(60 * (record + 8))
    command = [sys.executable, "-c", script, str(tmp_path / "a.rec")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=True)
    total, grown = map(int, done.stdout.split())
    assert total == 60 * (record - 24) and grown < 100_000, grown  # kilobytes
