"""One Parquet file: its schema and counts, and tables of a few rows. A separate process parses it."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from abreast.errors import DataError
from abreast.records.extras import extra
from abreast.records.sources import parquet_child
from abreast.workers.failure import describe_exit

_HINT = "take the file from a copy, or make it again"
_BOOT = (
    "import json, sys; argument = json.loads(sys.argv[1]); sys.path[:] = argument.pop('import_path'); "
    "import runpy; sys.argv[1] = json.dumps(argument); runpy.run_path(argument['program'], run_name='__main__')"
)
_FACTS_BYTES = 1 << 26
_END_SECONDS = 60.0
_RATIO = 1000  # images are not compressed that much


@dataclass(frozen=True)
class ParquetFacts:
    """Facts from a file's footer. `groups`: rows of each row group. `may_be_null`: (dotted) columns with missing values."""

    schema: Any
    rows: int
    groups: tuple[int, ...]
    may_be_null: frozenset[str]


def facts(path: Path) -> ParquetFacts:
    """The content of the file's footer. Raises `DataError` for a file that cannot be read."""
    pyarrow = extra("pyarrow")
    extra("pyarrow.parquet")
    with _asked(path, {"question": "facts"}) as stdout:
        text = stdout.read(_FACTS_BYTES)
    try:
        found = json.loads(text)
        schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(found["schema"])))
    except (ValueError, pyarrow.ArrowException) as error:
        raise _unreadable(path, str(error)) from None
    return ParquetFacts(schema, found["rows"], tuple(found["groups"]), frozenset(found["may_be_null"]))


def tables(path: Path, begin: int, columns: Sequence[str]) -> Iterator[Any]:
    """Tables of a few rows, from row `begin` on, which is the first row of a group. Raises `DataError`."""
    pyarrow = extra("pyarrow")
    with _asked(path, {"question": "rows", "begin": begin, "columns": list(columns)}) as stdout:
        try:
            for batch in pyarrow.ipc.open_stream(stdout):
                yield pyarrow.Table.from_batches([batch])
        except (OSError, pyarrow.ArrowException):
            return  # the process has ended too early; `_asked` raises the process's own error


@contextmanager
def _asked(path: Path, question: dict[str, Any]) -> Iterator[IO[bytes]]:
    """The answer of a process that parses the file. At the end of the block, raises `DataError` if the process failed."""
    argument = (
        question
        | _limits(path)
        | {
            "path": str(path),
            "program": parquet_child.__file__,
            "import_path": [os.path.abspath(entry) for entry in sys.path],
        }
    )
    with open(os.memfd_create("abreast-words"), "w+b") as words:
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps(argument)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            start_new_session=True,  # only the caller gets Ctrl-C
        )
        assert process.stdout is not None
        try:
            yield process.stdout
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            code = process.poll()
        finally:
            process.stdout.close()
            process.kill()
            process.wait()
        if code != 0:
            words.seek(0)
            raise _unreadable(path, _reason(code, words.read(2000).decode(errors="replace")))


def _limits(path: Path) -> dict[str, float]:
    """Limits of one pass over the file: memory of the process, CPU seconds, and bytes of all rows."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    return {
        "file_bytes": size,
        "memory_bytes": (3 << 28) + 4 * size,
        "cpu_seconds": 5.0 + size / (1 << 20),
        "output_bytes": (1 << 28) + _RATIO * size,
    }


def _reason(code: int | None, words: str) -> str:
    if code is None:
        return "the process that parsed it does not end"
    if code == -signal.SIGPROF:
        return "it takes too long for a file of its size"
    said = words.strip().rpartition("\n")[2]
    return said if code == 1 and said else f"the process that parsed it {describe_exit(code)}"


def _unreadable(path: Path, reason: str) -> DataError:
    return DataError(f"cannot read {path}: {reason.partition(chr(10))[0]:.200}", _HINT)
