"""A timeline as TensorBoard scalars, written with the `tensorboard` package and without TensorFlow."""

from __future__ import annotations

import os
import socket
import time
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import BackendError
from abreast.timeline.step_parts import PARTS


def write_scalars(logdir: str | PathLike[str], steps: np.ndarray[Any, Any], began: float) -> Path:
    """Write a scalar per step and part, in milliseconds, to an event file in `logdir`; returns its path.

    `began` is the time at which the fit began, as from `time.time`. Raises `BackendError` without the `tensorboard` package.
    """
    try:
        # `RecordWriter`, because `EventFileWriter` would load TensorFlow where that is installed.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise BackendError(
            f"TensorBoard scalars need the package tensorboard ({error})",
            "pip install tensorboard; `write_trace` and the JSON lines need no further package",
        ) from error
    folder = Path(logdir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}.abreast"
    writer = RecordWriter(path.open("wb"))
    writer.write(Event(wall_time=began, file_version="brain.Event:2").SerializeToString())
    for number, row in enumerate(steps):
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(row).items()]
        event = Event(wall_time=began + float(row["begin"]), step=number, summary=Summary(value=values))
        writer.write(event.SerializeToString())
    writer.flush()
    writer.close()
    return path


def _scalars(row: Any) -> dict[str, float]:
    wall = float(row["wall"])
    found = {"timeline/step_ms": 1000 * wall}
    found |= {f"timeline/{name}_ms": 1000 * float(row[name]) for name in PARTS}
    found["timeline/starvation"] = float(row["wait"] + row["copy"]) / wall if wall else 0.0
    if row["rows"] and wall:
        found["timeline/rows_per_second"] = float(row["rows"]) / wall
    return found
