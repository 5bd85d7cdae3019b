"""A user's request for devices, such as `"0,2"`: its parser, and the choice of names among a backend's devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from abreast import typed_command
from abreast.errors import DeviceError
from abreast.launchers import World
from abreast.units import counted

# A user's request for devices: "auto", a number, "4", "0,2", "gpu:0,gpu:1", or a sequence of indices and names.
DeviceSpec = str | int | Sequence[int | str]
# The parsed request: a kind ("auto" or "gpu") for all its devices, an integer for a number, a tuple for exactly these.
ParsedRequest = str | int | tuple[int | str, ...]

MOST_SIMULATED = 4096  # each takes threads and memory
_FORM = 'give "auto", a number, indices as "0,2", or names as "gpu:0,gpu:1" or "cpu:0"'


def parse_devices(spec: DeviceSpec) -> ParsedRequest:
    """Parse a request for devices. Raises `DeviceError` for a request that is invalid on every machine.

    `"4"` is a number of devices, `"0,2"` are indices; `"0,"` and `[0]` are device 0 alone.
    """
    if isinstance(spec, str):
        return _parse_text(spec)
    if isinstance(spec, Sequence):
        return _parse_items(spec)
    count = _whole(spec)
    if count is None:
        raise DeviceError(f"devices={spec!r} is no request for devices", _FORM)
    return _count(count)


def cpu_devices(count: Any) -> int:
    """A number of devices to simulate. Raises `DeviceError` for anything except whole numbers of at least 1."""
    whole = _whole(count)
    if whole is None or whole < 1:
        raise DeviceError(f"the CPU cannot simulate {count!r} devices", "give a whole number, at least 1, as 4")
    if whole > MOST_SIMULATED:
        raise DeviceError(f"the CPU cannot simulate {whole:,} devices", f"give {MOST_SIMULATED:,} at most")
    return whole


def _whole(value: Any) -> int | None:
    """A whole number of any type; None for other values."""
    try:
        return None if isinstance(value, bool) else int(value.__index__())
    except (AttributeError, TypeError):  # NumPy's floats have the method, but it raises
        return None


def choose(spec: DeviceSpec, available: Sequence[str]) -> tuple[str, ...]:
    """The names in `available` that a request selects, in its order. Raises `DeviceError` for missing devices."""
    request = parse_devices(spec)
    pool = tuple(name for name in available if _kind(name) != "cpu") or tuple(available)
    if isinstance(request, str):
        chosen = pool if request == "auto" else tuple(name for name in available if _kind(name) == request)
        if not chosen:
            raise _absent(request, available, request)
        return chosen
    if isinstance(request, int):
        if request > len(pool):
            raise _too_many(request, pool)
        return pool[:request]
    return _distinct([_find(item, pool, available, request) for item in request])


def unused_request(spec: DeviceSpec, world: World, names: Sequence[str]) -> str | None:
    """A line for the user if a launcher's processes ignore a request. `names`: all devices of the job, such as `rank:0/1`."""
    own = sum(name.partition("/")[0] == f"rank:{world.rank}" for name in names)
    if parse_devices(spec) in ("auto", own, len(names)):
        return None
    taken = f"{world.source} started {world.size} processes, and this one takes {counted(own, 'device')}"
    return (
        f"devices={spec!r} is not used: {taken}\n"
        "hint: show each process its devices (`CUDA_VISIBLE_DEVICES`, `--cpu-devices N`)"
    )


def _parse_text(text: str) -> ParsedRequest:
    items = [item.strip() for item in text.split(",")]
    if len(items) > 1:
        return _parse_items(items[:-1] if items[-1] == "" else items)
    item = _parse_item(items[0])
    if isinstance(item, int):
        return _count(item)
    return item if ":" not in item else (item,)


def _parse_items(items: Sequence[Any]) -> tuple[int | str, ...]:
    if len(items) == 0:
        raise DeviceError("the list of devices is empty", 'give at least one, or "auto" for every accelerator')
    parsed = tuple(_parse_item(item) for item in items)
    for item in parsed:
        if isinstance(item, int) and item < 0:
            raise DeviceError(f"device index {item} is negative", "indices count from 0")
        if isinstance(item, str) and ":" not in item:
            raise DeviceError(f"a list of devices cannot hold {item!r}", 'a list holds indices and names as "gpu:0"')
    return parsed


def _parse_item(item: Any) -> int | str:
    if not isinstance(item, str):
        if (whole := _whole(item)) is None:
            raise DeviceError(f"{item!r} is no device", 'give an index, or a name as "gpu:0"')
        return whole
    text = item.strip().lower()
    if text.removeprefix("-").isdecimal():
        return int(text)
    kind, colon, index = text.partition(":")
    kind = "gpu" if kind == "cuda" else kind
    if not kind.isalpha() or (colon and not (index.isascii() and index.isdecimal())):
        raise DeviceError(f"{item!r} is no device", f"{_FORM}; `abreast devices` lists those that exist")
    return f"{kind}:{int(index)}" if colon else kind


def _count(count: int) -> int:
    if count < 1:
        hint = "ask for at least 1; for the device with index 0 alone write [0], or --devices gpu:0"
        raise DeviceError(f"{count} devices asked for, which is too few", hint)
    return count


def _find(item: int | str, pool: Sequence[str], available: Sequence[str], request: Sequence[int | str]) -> str:
    """The name of one device of a request, which may be an index in the pool."""
    if isinstance(item, str):
        if item not in available:
            raise _absent(item, available, _kind(item), request)
        return item
    matches = [name for name in pool if name.endswith(f":{item}")]
    if not matches:
        raise _absent(f"with index {item}", available, "cpu", request)
    return matches[0]


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise DeviceError(f"device {name} asked for {times} times", "name each device once")
    if len({_kind(name) for name in names}) > 1:
        raise DeviceError(f"devices of different kinds: {', '.join(names)}", "replicas run on devices of one kind")
    return tuple(names)


def _kind(name: str) -> str:
    return name.partition(":")[0]


def _absent(wanted: str, available: Sequence[str], kind: str, request: Sequence[int | str] = ()) -> DeviceError:
    message = f"there is no device {wanted}, only {', '.join(available) or 'none'}"
    most = max([1, *(int(str(item).rpartition(":")[2]) for item in request if item not in available)])
    simulate = f"; {_simulate_hint(most + 1)}" if _only_cpu(available) and kind in ("gpu", "cpu") else ""
    return DeviceError(message, f"{_FORM}{simulate or '; `abreast devices` lists them'}")


def _too_many(count: int, pool: Sequence[str]) -> DeviceError:
    there = f"there is {pool[0]}" if len(pool) == 1 else f"there are {len(pool)}: {', '.join(pool)}"
    message = f"{count} devices asked for, but {there if pool else 'there is none'}"
    return DeviceError(message, _simulate_hint(count) if _only_cpu(pool) else f"ask for at most {len(pool)}")


def _only_cpu(available: Sequence[str]) -> bool:
    return all(_kind(name) == "cpu" for name in available)


def _simulate_hint(count: int) -> str:
    return (
        f"to simulate devices on the CPU, use `{typed_command.simulating(count)}`, "
        f"or abreast.use_cpu_devices({count}) before anything is computed"
    )
