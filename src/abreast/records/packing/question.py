"""`pack(dry_run=True)`: all work of a packer without writing; the summary lists the items that would fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from abreast.durable_files import Files
from abreast.errors import DataError
from abreast.records.format.index import Note
from abreast.records.format.keys import printable
from abreast.records.packing.destination import check_destination
from abreast.records.packing.durable import write_errors
from abreast.records.packing.prepare import Recipe, name_of, prepared
from abreast.records.packing.progress import Progress, Summary, Ticker
from abreast.records.packing.writer import DatasetWriter
from abreast.records.sources.source import ItemSource


def answer(
    source: ItemSource,
    folder: Path,
    settings: dict[str, Any],
    recipe: Recipe,
    num_threads: int,
    progress: Callable[[Progress], None] | None,
) -> Summary:
    """The summary of a packing into `folder`, whose notes name a file by its path.

    Raises `DataError` if the folder could not be packed into.
    """
    with write_errors(folder):
        check_destination(folder, settings)
    writer = DatasetWriter(folder, settings, 0, Files())
    writer.columns = source.columns
    ticker = Ticker(progress, source.num_items, 0)
    notes: list[Note] = []
    num_bytes = 0
    for position, item, result in prepared(source.items(0), 0, recipe, num_threads):
        fails = False
        try:
            packed, text = result.result()
            num_bytes += writer.check(packed)
        except DataError as error:
            fails, text = True, error.message
        if text is not None:
            notes.append(Note(position, name_of(item), printable(text), fails))
        ticker.count(fails)
    ticker.report()
    return Summary(folder, writer.num_samples, 0, 0, num_bytes, ticker.seconds, tuple(notes), dry_run=True)
