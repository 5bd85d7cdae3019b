"""The process that parses a Parquet file. If Arrow's C++ reader crashes or needs too much memory, only this process ends.

`parquet_file.py` runs this file by its path and sets the limits. It imports nothing of abreast, to start quickly.
"""

from __future__ import annotations

import base64
import json
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

_ROWS_AT_ONCE = 64
_BATCH_BYTES = 1 << 26


class _Refused(Exception):
    """A file is refused, for the reason in the message."""


def main(argument: dict[str, Any]) -> None:
    """Answer one question on stdout. An error goes to stderr, with exit code 1."""
    try:
        with _opened(argument["path"], argument["memory_bytes"], argument["cpu_seconds"]) as file:
            if argument["question"] == "facts":
                sys.stdout.write(json.dumps(_facts(file, argument["file_bytes"])))
            else:
                _stream(_batches(file, argument["begin"], argument["columns"]), argument["output_bytes"])
    except (Exception, MemoryError) as error:
        sys.stderr.write(str(error).partition("\n")[0][:300] or type(error).__name__)
        sys.exit(1)


def _opened(path: str, memory_bytes: int, cpu_seconds: float) -> Any:
    import pyarrow.parquet

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)  # SIGPROF ends the process
    return pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)


def _facts(file: Any, file_bytes: int) -> dict[str, Any]:
    rows = file.metadata.num_rows
    if not 0 <= rows <= file_bytes:
        raise _Refused(f"it claims {rows} rows in {file_bytes} bytes")
    nulls = set()
    for group in map(file.metadata.row_group, range(file.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.statistics is None or chunk.statistics.null_count:
                nulls.add(chunk.path_in_schema)
    schema = base64.b64encode(file.schema_arrow.serialize()).decode()
    return {"schema": schema, "rows": rows, "groups": _group_rows(file), "may_be_null": sorted(nulls)}


def _group_rows(file: Any) -> list[int]:
    return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


def _batches(file: Any, begin: int, columns: list[str]) -> Iterator[Any]:
    """Batches of a few rows, from row `begin` on, which is the first row of a group."""
    groups, row = [], 0
    for group, rows in enumerate(_group_rows(file)):
        if row >= begin:
            groups.append(group)
        row += rows
    for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=groups, columns=columns, use_threads=False):
        at_once = max(1, _BATCH_BYTES * batch.num_rows // max(1, batch.nbytes))
        yield from (batch.slice(first, at_once) for first in range(0, batch.num_rows, at_once))


def _stream(batches: Iterator[Any], output_bytes: int) -> None:
    import pyarrow

    writer = None
    left = output_bytes
    for batch in batches:
        left -= batch.nbytes
        if left < 0:
            raise _Refused(f"its rows take more than {output_bytes} bytes, too many for a file of its size")
        if writer is None:
            writer = pyarrow.ipc.new_stream(sys.stdout.buffer, batch.schema)
        writer.write_batch(batch)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
