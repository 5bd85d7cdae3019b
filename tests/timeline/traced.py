"""The content of a `DeviceTrace`'s files. Runs in a process with a backend; imports no pytest."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def traced_steps(logdir: str) -> set[int]:
    """The steps that the files name."""
    backend = _backend()
    if backend == "torch":
        names = [event["name"] for event in _torch_events(logdir) if event.get("name", "").startswith("step ")]
        return {int(name.removeprefix("step ")) for name in names}
    if backend == "jax":
        return {int(event["args"]["step_num"]) for event in _jax_events(logdir) if "step_num" in event.get("args", {})}
    return {
        stat.int64_value
        for plane in _tensorflow_planes(logdir)
        for line in plane.lines
        for event in line.events
        if plane.event_metadata[event.metadata_id].name == "train"
        for stat in event.stats
        if plane.stat_metadata[stat.metadata_id].name == "step_num"
    }


def device_events(logdir: str) -> int:
    """How many things that GPUs did the files name: kernels and copies."""
    backend = _backend()
    if backend == "torch":
        return sum(event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") for event in _torch_events(logdir))
    if backend == "jax":
        return num_on_gpus(_jax_events(logdir))
    planes = [plane for plane in _tensorflow_planes(logdir) if plane.name.startswith("/device:GPU")]
    return sum(len(line.events) for plane in planes for line in plane.lines)


def num_on_gpus(events: list[dict[str, Any]]) -> int:
    """The events with a duration in GPU processes of a Chrome trace by XLA."""
    named = [event for event in events if event.get("name") == "process_name"]
    gpus = {event["pid"] for event in named if "/device:GPU" in event["args"]["name"]}
    return sum(event.get("ph") == "X" and event["pid"] in gpus for event in events)


def _backend() -> str:
    import keras

    return str(keras.backend.backend())


def _torch_events(logdir: str) -> Any:
    return json.loads((Path(logdir) / "rank0.trace.json").read_text())["traceEvents"]


def _jax_events(logdir: str) -> Any:
    with gzip.open(next(Path(logdir).rglob("perfetto_trace.json.gz"))) as file:
        return json.load(file)["traceEvents"]


def _tensorflow_planes(logdir: str) -> Any:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2.XSpace.FromString(next(Path(logdir).rglob("*.xplane.pb")).read_bytes()).planes
