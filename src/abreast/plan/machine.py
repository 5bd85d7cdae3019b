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
from abreast.nearest import nearest
from abreast.plan import measured_machine
from abreast.plan.software import LINKS, NETWORKS

_SLOWEST, _FASTEST = 1e4, 1e14  # bytes per second of any link or memory
_HOST_COPY_BYTES_PER_SECOND = 10e9  # pinned, PCIe 3 x16; for machines without this fact
_NEEDED = (
    "a machine has name, device, devices_per_host, device_link; a link kind, bytes_per_second; "
    "a device name, memory_bytes_per_second"
)
_EXAMPLE = "bytes_per_second, as 12e9 for 12 GB/s (12 GB/s = 96 Gb/s)"


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
    """`bytes_per_second` is one way: measured for the kinds `measured` and `all-reduce`, nominal for the others."""

    kind: str
    bytes_per_second: float
    latency_seconds: float = 0.0


@dataclass(frozen=True)
class Machine:
    """Hosts that are all alike. `assumed` names the facts that are guessed.

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

    @property
    def most_devices(self) -> int | None:
        if self.network is None:
            return self.devices_per_host
        return None if self.most_hosts is None else self.most_hosts * self.devices_per_host


def find_machine(name_or_path: str) -> Machine:
    """The machine with this name, or the one in this JSON file."""
    if name_or_path in machines():
        return machines()[name_or_path]
    if name_or_path.endswith(".json") or (name_or_path and os.path.exists(name_or_path)):
        return read_machine(name_or_path)
    raise DataError(f"no machine is called {name_or_path!r}", _suggest(name_or_path, machines()))


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
    facts = _Facts(content, where)
    device = facts.device("device")
    network = facts.link("network", NETWORKS) if facts.content.get("network") is not None else None
    return Machine(
        name=facts.text("name"),
        device=device,
        devices_per_host=facts.count("devices_per_host"),
        device_link=facts.link("device_link", LINKS),
        network=network,
        most_hosts=facts.count("most_hosts") if facts.content.get("most_hosts") is not None else None,
        host_copy_bytes_per_second=_host_copies(facts),
        shares_cores=facts.optional("shares_cores", bool, False),
        assumed=facts.words("assumed"),
        sources=facts.optional("sources", dict, {}),
    )


def _host_copies(facts: _Facts) -> float:
    given = any(name.startswith("host_copy_") for name in facts.content)  # another unit is an error
    return facts.rate("host_copy_bytes_per_second") if given else _HOST_COPY_BYTES_PER_SECOND


@cache
def machines() -> dict[str, Machine]:
    """The machines that ship, by name."""
    return {one["name"]: machine_from(one, f"machine {one['name']}") for one in _shipped()["machines"]}


@cache
def devices() -> dict[str, DeviceSpeed]:
    """The GPUs that ship, by name."""
    return {name: _device(name, facts, f"device {name}") for name, facts in _shipped()["devices"].items()}


def find_device(name: str) -> DeviceSpeed:
    if name not in devices():
        raise DataError(f"no GPU is called {name!r}", _suggest(name, devices()))
    return devices()[name]


@cache
def _names_by_driver() -> dict[str, str]:
    """By the name that the driver gives a GPU, without the maker: the name under which the GPU ships."""
    return {other: name for name, facts in _shipped()["devices"].items() for other in facts.get("driver_names", ())}


@cache
def _shipped() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("abreast.plan").joinpath("machines.json").read_text())
    return content


def _suggest(name: str, known: Mapping[str, Any]) -> str:
    near = nearest(name, known)
    begin = f"did you mean {' or '.join(near)}? There" if near else "there"
    return f"{begin} are {', '.join(known)}"


class _Facts:
    """Facts of one JSON object, each checked as it is read."""

    def __init__(self, content: Any, where: str) -> None:
        if not isinstance(content, dict):
            raise DataError(f"{where} is {content!r:.80}, not an object", 'a JSON object, as `{"name": "mine"}`')
        self.content: dict[str, Any] = content
        self._where = where

    def text(self, name: str) -> str:
        value = self._value(name)
        if not isinstance(value, str) or not value:
            raise DataError(f"{self._where}: {name} is {value!r}", f"{name} is a word")
        return value

    def count(self, name: str) -> int:
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DataError(f"{self._where}: {name} is {value!r}", f"{name} is a whole number, 1 or more")
        return value

    def rate(self, name: str) -> float:
        unlike = [key for key in self.content if key.startswith(name.removesuffix("bytes_per_second")) and key != name]
        unlike = [key for key in unlike if "_per_second" in key]
        if unlike:
            raise DataError(f"{self._where}: {unlike[0]} is in another unit", f"rates are in {_EXAMPLE}")
        value = self._value(name)
        if not plain_json.positive(value):
            raise DataError(f"{self._where}: {name} is {value!r}", f"it is above zero, in {_EXAMPLE}")
        if not _SLOWEST <= value <= _FASTEST:
            raise DataError(
                f"{self._where}: {name} is {value:g}, beyond any link or memory", f"rates are in {_EXAMPLE}"
            )
        return float(value)

    def optional(self, name: str, kind: type, default: Any) -> Any:
        value = self.content.get(name, default)
        if not isinstance(value, kind):
            kinds = {list: "list", dict: "object", bool: "true or false"}
            raise DataError(f"{self._where}: {name} is {value!r}", f"{name} is a JSON {kinds[kind]}")
        return value

    def size(self, name: str) -> float | None:
        value = self.content.get(name)
        if value is not None and not plain_json.positive(value):
            raise DataError(f"{self._where}: {name} is {value!r}", f"{name} is a number above zero, as 16e9")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        found = self.optional(name, list, [])
        if not all(isinstance(each, str) for each in found):
            raise DataError(f"{self._where}: {name} is {found!r}", f"{name} is a JSON list of words")
        return tuple(found)

    def link(self, name: str, kinds: tuple[str, ...]) -> LinkSpeed:
        inner = _Facts(self._value(name), f"{self._where}: {name}")
        kind = inner.text("kind")
        if kind not in kinds:
            raise DataError(f"{self._where}: {name} is of kind {kind!r}", f"one of {', '.join(kinds)}")
        latency = inner.content.get("latency_seconds", 0.0)
        if isinstance(latency, bool) or not isinstance(latency, int | float) or not 0 <= latency < 10:
            raise DataError(f"{self._where}: {name}: latency_seconds is {latency!r}", "it is in seconds, as 5e-6")
        return LinkSpeed(kind, inner.rate("bytes_per_second"), float(latency))

    def device(self, name: str) -> DeviceSpeed:
        value = self._value(name)
        if isinstance(value, str):
            return find_device(value)
        inner = _Facts(value, f"{self._where}: {name}")
        return _device(inner.text("name"), inner.content, f"{self._where}: {name}")

    def _value(self, name: str) -> Any:
        if name not in self.content:
            raise DataError(f"{self._where}: {name} is missing", _NEEDED)
        return self.content[name]


def _device(name: str, content: dict[str, Any], where: str) -> DeviceSpeed:
    facts = _Facts(content, where)
    peaks = facts.optional("peak_flops", dict, {})
    for precision, flops in peaks.items():
        if not plain_json.positive(flops) or not 1e9 <= flops <= 1e18:
            raise DataError(f"{where}: peak_flops of {precision} is {flops!r}", "in operations per second, as 15.7e12")
    return DeviceSpeed(
        name,
        facts.rate("memory_bytes_per_second"),
        dict(peaks),
        facts.size("memory_bytes"),
        facts.optional("shares_board", bool, False),
        str(content.get("source", "")),
    )
