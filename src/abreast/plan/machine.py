"""Hardware for `plan`: devices, hosts and the links between them, from JSON or from the machines that ship.

The JSON has the form of `machines.json`, with each rate in bytes per second under the name of its unit. The JSON of `abreast
machine` is read too (`measured_machine.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from abreast import plain_json
from abreast.errors import DataError
from abreast.nearest import did_you_mean
from abreast.plan import measured_machine
from abreast.plan.facts import JsonFacts
from abreast.plan.software import LINKS, NETWORKS

_HOST_COPY_BYTES_PER_SECOND = 10e9  # pinned, PCIe 3 x16; for machines without this fact
_NEEDED = (
    "a machine has name, device, devices_per_host, device_link; a link kind, bytes_per_second; "
    "a device name, memory_bytes_per_second"
)


@dataclass(frozen=True)
class DeviceSpeed:
    """One GPU. `peak_flops` has the maker's floating-point operations per second, by precision."""

    name: str
    memory_bytes_per_second: float
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    memory_bytes: float | None = None
    shares_board: bool = False
    source: str = ""


@dataclass(frozen=True)
class LinkSpeed:
    """A link. `bytes_per_second` is one way: measured for the kinds `measured` and `all-reduce`, nominal for the others."""

    kind: str
    bytes_per_second: float
    latency_seconds: float = 0.0


@dataclass(frozen=True)
class Machine:
    """A machine of equal hosts. `assumed` names the facts that are guessed.

    `host_copy_bytes_per_second` is the rate from a host to one of its devices. With `shares_cores`, the devices are simulated on
    one processor and may share its cores.
    """

    name: str
    device: DeviceSpeed
    devices_per_host: int
    device_link: LinkSpeed
    network: LinkSpeed | None = None
    most_hosts: int | None = None
    host_copy_bytes_per_second: float = _HOST_COPY_BYTES_PER_SECOND
    shares_cores: bool = False
    assumed: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


def find_machine(name_or_path: str) -> Machine:
    """The machine with this name, or the one in this JSON file."""
    if name_or_path in machines():
        return machines()[name_or_path]
    if name_or_path.endswith(".json") or (name_or_path and os.path.exists(name_or_path)):
        return read_machine(name_or_path)
    raise DataError(
        f"no machine is called {name_or_path!r}", did_you_mean(name_or_path, machines(), "abreast plan --list")
    )


def read_machine(path: str | Path) -> Machine:
    """The machine in a JSON file, written by hand or by `abreast machine`."""
    try:
        content = plain_json.parse(Path(path).read_text())
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}", "give the name of a machine that ships, or a JSON file"
        ) from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}", "`abreast machine > machine.json` writes one") from None
    if measured_machine.is_measured(content):
        content = measured_machine.described(content, str(path), _names_by_driver())
    return machine_from(content, str(path))


def machine_from(content: Any, where: str = "the machine") -> Machine:
    """A machine from parsed JSON; `where` names it in errors."""
    facts = JsonFacts(content, where, _NEEDED)
    if isinstance(facts["device"], str):
        device = find_device(facts["device"])
    else:
        own = facts.inner("device")
        device = _device(own.text("name"), own)
    return Machine(
        name=facts.text("name"),
        device=device,
        devices_per_host=facts.count("devices_per_host"),
        device_link=_link(facts, "device_link", LINKS),
        network=_link(facts, "network", NETWORKS) if facts.content.get("network") is not None else None,
        most_hosts=facts.count("most_hosts") if facts.content.get("most_hosts") is not None else None,
        host_copy_bytes_per_second=_host_copies(facts),
        shares_cores=facts.optional("shares_cores", bool, False),
        assumed=facts.words("assumed"),
        sources=facts.optional("sources", dict, {}),
    )


def _host_copies(facts: JsonFacts) -> float:
    given = any(name.startswith("host_copy_") for name in facts.content)  # another unit is an error
    return facts.rate("host_copy_bytes_per_second") if given else _HOST_COPY_BYTES_PER_SECOND


@cache
def machines() -> dict[str, Machine]:
    """The machines that ship, by name."""
    return {one["name"]: machine_from(one, f"machine {one['name']}") for one in _shipped()["machines"]}


@cache
def devices() -> dict[str, DeviceSpeed]:
    """The GPUs that ship, by name."""
    return {
        name: _device(name, JsonFacts(facts, f"device {name}", _NEEDED))
        for name, facts in _shipped()["devices"].items()
    }


def find_device(name: str) -> DeviceSpeed:
    if name not in devices():
        raise DataError(f"no GPU is called {name!r}", did_you_mean(name, devices()))
    return devices()[name]


@cache
def _names_by_driver() -> dict[str, str]:
    """Names of GPUs in `plan`, by the driver's name without the maker."""
    return {other: name for name, facts in _shipped()["devices"].items() for other in facts.get("driver_names", ())}


def name_of_gpu(model: str) -> str:
    """The name of a GPU in `plan`, given the driver's name; for an unknown GPU, the driver's name itself."""
    return _names_by_driver().get(model.removeprefix("NVIDIA "), model)


@cache
def _shipped() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("abreast.plan").joinpath("machines.json").read_text())
    return content


def _link(facts: JsonFacts, name: str, kinds: tuple[str, ...]) -> LinkSpeed:
    inner = facts.inner(name)
    kind = inner.text("kind")
    if kind not in kinds:
        raise DataError(f"{facts.where}: {name} is of kind {kind!r}", f"one of {', '.join(kinds)}")
    latency = inner.content.get("latency_seconds", 0.0)
    if isinstance(latency, bool) or not isinstance(latency, int | float) or not 0 <= latency < 10:
        raise inner.error("latency_seconds", "it is in seconds, as 5e-6")
    return LinkSpeed(kind, inner.rate("bytes_per_second"), float(latency))


def _device(name: str, facts: JsonFacts) -> DeviceSpeed:
    peaks = facts.optional("peak_flops", dict, {})
    for precision, flops in peaks.items():
        if not plain_json.positive(flops) or not 1e9 <= flops <= 1e18:
            what = f"{facts.where}: peak_flops of {precision} is {flops!r}"
            raise DataError(what, "in operations per second, as 15.7e12")
    return DeviceSpeed(
        name,
        facts.rate("memory_bytes_per_second"),
        dict(peaks),
        facts.known("memory_bytes"),
        facts.optional("shares_board", bool, False),
        str(facts.content.get("source", "")),
    )
