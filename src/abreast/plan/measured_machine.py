"""A machine for `plan` from the measurements of `abreast machine`, in the keys that `machine.py` reads.

A measured all-reduce is preferred to measured copies, and measured copies to a data sheet. Not here: the check that the rates are
possible (`machine.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import DataError
from abreast.plan.facts import JsonFacts
from abreast.plan.rings import has_ring, slowest_of_fastest_ring
from abreast.units import byte_count, counted

FORMAT = 1  # of `abreast machine`
SIMULATED = "each simulated device has as many cores as one had alone; at the low end of the interval they share them"
_AGAIN = "`abreast machine > machine.json` writes a new one"
_NVLINK_CLASS = "NV"
# Share of a PCIe link's rate that copies from pinned memory reach: 0.763 of 0.985 GB/s, and 6.07 of 7.88, in Rossum's tests.
_COPIED_SHARE = 0.77
Pairs = dict[tuple[int, int], JsonFacts]


def is_measured(content: Any) -> bool:
    """Whether parsed JSON is from `abreast machine`, and not a machine described by hand."""
    return isinstance(content, dict) and "gpus" in content and "device" not in content


def described(content: dict[str, Any], where: str, known: Mapping[str, str]) -> dict[str, Any]:
    """The machine in the form that `plan` reads. `known` maps the driver's name of a GPU to its name in `plan`.

    Facts that a user added are kept: `name`, `network`, `most_hosts`, `assumed`. Raises `DataError` for a missing fact.
    """
    if content.get("format") != FORMAT:
        raise DataError(f"{where}: format is {content.get('format')!r}, and this version reads {FORMAT}", _AGAIN)
    facts = JsonFacts(content, where, _AGAIN)
    gpus = facts.objects("gpus")
    machine = _with_gpus(facts, gpus, known) if gpus else _simulated(facts)
    when = ", ".join(str(content[name]) for name in ("made_by", "date") if name in content)
    machine["sources"] = {name: f"{text} ({when})" for name, text in machine["sources"].items()}
    machine |= {name: content[name] for name in ("name", "network", "most_hosts") if name in content}
    added = content.get("assumed", [])
    return machine | {"assumed": [*machine["assumed"], *added] if isinstance(added, list) else added}


def _with_gpus(facts: JsonFacts, gpus: Sequence[JsonFacts], known: Mapping[str, str]) -> dict[str, Any]:
    models = Counter(str(gpu.content.get("model", "GPU without a name")) for gpu in gpus)
    found = [_device(gpu, known) for gpu in gpus]
    link, source = _device_link(facts, gpus)
    machine = {
        "name": ", ".join(f"{number} x {model}" for model, number in models.items()),
        "device": found[_slowest(gpus)],
        "devices_per_host": len(gpus),
        "device_link": link,
        "assumed": [f"all {len(gpus)} GPUs are as the slowest of them"] if len(models) > 1 else [],
        "sources": {"device_link": source},
    }
    copies = _host_copies(facts, gpus)
    return machine | ({} if copies is None else {"host_copy_bytes_per_second": copies})


def _device(gpu: JsonFacts, known: Mapping[str, str]) -> Any:
    """The name of a GPU that ships, or the facts from its driver."""
    model = str(gpu.content.get("model", ""))
    if model.removeprefix("NVIDIA ") in known:
        return known[model.removeprefix("NVIDIA ")]
    rate = gpu.known("memory_bytes_per_second")
    if rate is None:
        raise DataError(
            f"{gpu.where}: nothing is known about {model or 'a GPU without a name'}",
            'add the rate of its memory to its entry in gpus, as `"memory_bytes_per_second": 936e9`',
        )
    more = {name: gpu[name] for name in ("peak_flops", "memory_bytes") if name in gpu.content}
    return {"name": model, "memory_bytes_per_second": rate, "source": "the GPU's driver", **more}


def _slowest(gpus: Sequence[JsonFacts]) -> int:
    """The index of the GPU with the slowest memory; unknown rates count as fast."""
    rates = [gpu.known("memory_bytes_per_second") or math.inf for gpu in gpus]
    return rates.index(min(rates))


def _device_link(facts: JsonFacts, gpus: Sequence[JsonFacts]) -> tuple[dict[str, Any], str]:
    """The link between the GPUs, and the source of that fact."""
    if facts.content.get("all_reduce") and not facts.content.get("all_reduce_simulated", False):
        link, source, count = _all_reduce(facts)
        if count == len(gpus):
            return link, source
    if len(gpus) == 1:
        return _alone(facts, gpus[0])
    pairs = _pairs(facts, gpus)
    copies = {pair: rate for pair, entry in pairs.items() if (rate := _copy_rate(entry)) is not None}
    if copies:
        slowest = slowest_of_fastest_ring(copies, len(gpus)) or min(copies.values())
        return _link("measured", slowest, _latency(pairs)), "measured: the slowest copy of the fastest ring"
    return _nominal(facts, pairs, gpus)


def _all_reduce(facts: JsonFacts) -> tuple[dict[str, Any], str, int]:
    """The all-reduce over the most devices: the rate of its largest buffer, and the latency of its smallest."""
    entries = facts.objects("all_reduce")
    most = max(entry.count("devices") for entry in entries)
    over = sorted((entry.number("bytes"), entry.number("seconds")) for entry in entries if entry["devices"] == most)
    if most < 2:
        raise DataError(f"{facts.where}: all_reduce is over {counted(most, 'device')}", _AGAIN)
    turns = 2 * (most - 1)
    (_, least_seconds), (size, seconds) = over[0], over[-1]
    rate = turns / most * size / seconds
    latency = least_seconds / turns if len(over) > 1 else 0.0
    source = f"measured: all-reduce of {byte_count(size)} over {counted(most, 'device')}"
    return _link("all-reduce", rate, latency), source, most


def _alone(facts: JsonFacts, gpu: JsonFacts) -> tuple[dict[str, Any], str]:
    """The link to the host, for a host with a single GPU, which has no link to another GPU."""
    rate = gpu.known("pcie_bytes_per_second_each_way")
    if rate is not None:
        return _link("pcie", rate), "the GPU's driver: PCIe generation and width"
    pinned = _host_copies(facts, [gpu])
    if pinned is not None:
        return _link("measured", pinned), "measured: copies from the host"
    raise DataError(f"{facts.where}: nothing is known about the GPU's PCIe link", _AGAIN)


def _nominal(facts: JsonFacts, pairs: Pairs, gpus: Sequence[JsonFacts]) -> tuple[dict[str, Any], str]:
    """The link as the driver describes it, if nothing was measured."""
    links = {pair: entry.content for pair, entry in pairs.items()}
    nvlinks = [pair for pair, link in links.items() if str(link.get("class", "")).startswith(_NVLINK_CLASS)]
    rates = [gpu.known("nvlink_bytes_per_second_each_way") for gpu in gpus]
    if has_ring(nvlinks, len(gpus)) and None not in rates:
        return _link("nvlink", _least(rates)), "the GPUs' driver: NVLinks and their version"
    lanes = [gpu.known("pcie_bytes_per_second_each_way") for gpu in gpus]
    if None in lanes:
        what = f"nothing is known about the links between its {len(gpus)} GPUs"
        raise DataError(f"{facts.where}: {what}", _AGAIN)
    peers = [link.get("peer_access") for link in links.values()]
    known = bool(peers) and all(isinstance(peer, bool) for peer in peers)
    kind = "pcie" if not known else "pcie-peer" if all(peers) else "pcie-through-host"
    return _link(kind, _least(lanes)), "the GPUs' driver: PCIe generation, width and peer access"


def _pairs(facts: JsonFacts, gpus: Sequence[JsonFacts]) -> Pairs:
    """The entries of `links` by the indices of their GPUs, in both orders."""
    places = {str(gpu.content.get("name")): place for place, gpu in enumerate(gpus)}
    found: Pairs = {}
    for entry in facts.objects("links"):
        ends = [str(entry.content.get(name)) for name in ("from", "to")]
        if not all(end in places for end in ends):
            names = " and ".join(map(repr, ends))
            raise DataError(f"{facts.where}: a link joins {names}, and not both are in its gpus", _AGAIN)
        first, second = (places[end] for end in ends)
        found[first, second] = found[second, first] = entry
    return found


def _copy_rate(entry: JsonFacts) -> float | None:
    """The rate of the faster path between two GPUs, which collectives choose, too."""
    names = ("bytes_per_second_with_peer_access", "bytes_per_second_without_peer_access")
    return max((rate for name in names if (rate := entry.known(name)) is not None), default=None)


def _latency(pairs: Pairs) -> float:
    """The longest latency of all pairs."""
    names = ("latency_seconds_with_peer_access", "latency_seconds_without_peer_access")
    measured = [[entry.known(name) for name in names] for entry in pairs.values()]
    return max((_least(each) for each in measured if any(each)), default=0.0)


def _host_copies(facts: JsonFacts, gpus: Sequence[JsonFacts]) -> float | None:
    """Bytes per second from the host to one GPU while it feeds all."""
    rates = facts.content.get("host_to_device_bytes_per_second")
    if not isinstance(rates, dict) or not isinstance(rates.get("pinned"), list):
        lanes = [gpu.known("pcie_bytes_per_second_each_way") for gpu in gpus]
        return None if None in lanes else _COPIED_SHARE * _least(lanes)
    where = f"{facts.where}: host_to_device_bytes_per_second"
    pinned = [JsonFacts({"pinned": rate}, where, _AGAIN).number("pinned") for rate in rates["pinned"]]
    together = JsonFacts(rates, where, _AGAIN).known("pinned_all_at_once")
    return min([*pinned, *([] if together is None else [together / len(gpus)])], default=None)


def _simulated(facts: JsonFacts) -> dict[str, Any]:
    """A machine without a GPU, whose devices are simulated on its processor."""
    if not facts.content.get("all_reduce"):
        raise DataError(
            f"{facts.where} has no GPU, and simulated devices were not measured",
            "`abreast machine --cpu-devices 2` measures them; or name another machine, as `--machine dgx-1-v100`",
        )
    link, source, most = _all_reduce(facts)
    copies = facts.number("memory_copy_bytes_per_second")
    processor = str(facts.content.get("cpu", "a processor"))
    device = {
        "name": processor,
        "memory_bytes_per_second": 2 * copies,  # each byte is read and written
        "source": "measured: copies in memory",
    }
    return {
        "name": f"{counted(most, 'simulated device')} on {processor}",
        "device": device,
        "devices_per_host": most,
        "device_link": link,
        "host_copy_bytes_per_second": copies,
        "shares_cores": True,
        "assumed": [SIMULATED],
        "sources": {"device_link": source},
    }


def _link(kind: str, bytes_per_second: float, latency_seconds: float = 0.0) -> dict[str, Any]:
    return {"kind": kind, "bytes_per_second": bytes_per_second, "latency_seconds": latency_seconds}


def _least(rates: Sequence[float | None]) -> float:
    return min(rate for rate in rates if rate is not None)
