"""Python values as JSON and arrays, the only content of a checkpoint: `pack` and `unpack`.

No code is stored, and none runs while a value is read: a function is stored as the name of a Keras or NumPy operation. Not here:
files.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

import keras
import numpy as np

_KIND = "!"  # the key that marks a packed value, unlike a plain dictionary


class CannotPackError(Exception):
    """A value, at `path`, that is neither data nor a known operation."""

    def __init__(self, path: str, value: Any) -> None:
        super().__init__(f"{path} is a {type(value).__module__}.{type(value).__qualname__}")
        self.path = path


def pack(value: Any, path: str, arrays: MutableMapping[str, Any]) -> Any:
    """A value as JSON; its arrays go to `arrays` by name, as copies. Raises `CannotPackError`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, keras.Variable):
        raise CannotPackError(path, value)  # a variable is more than its value
    if type(value) is list:
        return [pack(each, f"{path}/{i}", arrays) for i, each in enumerate(value)]
    if type(value) is dict and all(type(key) is str for key in value) and _KIND not in value:
        return {key: pack(each, f"{path}/{key}", arrays) for key, each in value.items()}
    for kind, (types, do) in _PACKED.items():
        if isinstance(value, types):
            return {_KIND: kind, "value": do(value, path, arrays)}
    if keras.ops.is_tensor(value):
        return {_KIND: "tensor", "value": _pack_array(keras.ops.convert_to_numpy(value), path, arrays)}
    if (name := _operation(value)) is not None:
        return {_KIND: "operation", "value": name}
    raise CannotPackError(path, value)


def unpack(packed: Any, arrays: Mapping[str, Any]) -> Any:
    """The value that was packed. Raises `ValueError` for content that `pack` does not write."""
    if isinstance(packed, list):
        return [unpack(each, arrays) for each in packed]
    if not isinstance(packed, dict):
        return packed
    if _KIND not in packed:
        return {key: unpack(each, arrays) for key, each in packed.items()}
    kind = packed[_KIND]
    if kind not in _UNPACKED:
        raise ValueError(f"a value of the unknown kind {kind!r}")
    return _UNPACKED[kind](packed["value"], arrays)


def copies(values: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of those values that are data."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        arrays: dict[str, Any] = {}
        with suppress(CannotPackError):
            found[name] = unpack(pack(value, name, arrays), arrays)
    return found


def array_to_json(array: Any) -> list[Any]:
    """A small array as JSON, for messages without a file."""
    return [array.dtype.name, list(array.shape), array.tobytes().hex()]


def array_from_json(packed: Sequence[Any]) -> Any:
    """The array that `array_to_json` was given."""
    name, shape, data = packed
    return np.frombuffer(bytes.fromhex(data), np.dtype(name)).reshape(shape).copy()


def _pack_array(value: Any, path: str, arrays: MutableMapping[str, Any]) -> str:
    if value.dtype.hasobject:
        raise CannotPackError(path, value)
    arrays[path] = np.array(value, order="C")
    return path


def _pack_scalar(value: Any, path: str, arrays: MutableMapping[str, Any]) -> list[Any]:
    if value.dtype.kind not in "biuf" or value.dtype.name == "longdouble":
        raise CannotPackError(path, value)
    return [value.dtype.name, value.item()]


def _pack_items(value: Any, path: str, arrays: MutableMapping[str, Any]) -> list[Any]:
    return [pack(each, f"{path}/{i}", arrays) for i, each in enumerate(value)]


def _pack_pairs(value: Any, path: str, arrays: MutableMapping[str, Any]) -> list[Any]:
    if type(value) is not dict:
        raise CannotPackError(path, value)  # a subclass, such as defaultdict, has more than its items
    return [
        [pack(key, f"{path}/key {i}", arrays), pack(each, f"{path}/{i}", arrays)]
        for i, (key, each) in enumerate(value.items())
    ]


def _pack_tuple(value: Any, path: str, arrays: MutableMapping[str, Any]) -> list[Any]:
    if type(value) is not tuple:
        raise CannotPackError(path, value)
    return _pack_items(value, path, arrays)


def _pack_deque(value: Any, path: str, arrays: MutableMapping[str, Any]) -> list[Any]:
    return [value.maxlen, _pack_items(value, path, arrays)]


def _pack_generator(value: Any, path: str, arrays: MutableMapping[str, Any]) -> Any:
    return pack(value.bit_generator.state, path, arrays)


def _pack_legacy_generator(value: Any, path: str, arrays: MutableMapping[str, Any]) -> Any:
    return pack(value.get_state(legacy=False), path, arrays)


def _pack_python_generator(value: Any, path: str, arrays: MutableMapping[str, Any]) -> Any:
    return pack(value.getstate(), path, arrays)


_PACKED: dict[str, tuple[Any, Callable[[Any, str, MutableMapping[str, Any]], Any]]] = {
    "array": (np.ndarray, _pack_array),
    "scalar": (np.generic, _pack_scalar),
    "tuple": (tuple, _pack_tuple),
    "dict": (dict, _pack_pairs),
    "set": (set, _pack_items),
    "frozenset": (frozenset, _pack_items),
    "deque": (deque, _pack_deque),
    "bytes": (bytes, lambda value, *_: value.hex()),
    "numpy generator": (np.random.Generator, _pack_generator),
    "numpy random state": (np.random.RandomState, _pack_legacy_generator),
    "python generator": (random.Random, _pack_python_generator),
}


def _array(name: Any, arrays: Mapping[str, Any]) -> Any:
    if name not in arrays:
        raise ValueError(f"the array {name!r} is missing")
    return np.array(arrays[name])


def _generator(state: Any, arrays: Mapping[str, Any]) -> np.random.Generator:
    found = unpack(state, arrays)
    name = str(found["bit_generator"])
    if name not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        raise ValueError(f"an unknown generator of NumPy, {name!r}")
    generator = np.random.Generator(getattr(np.random, name)())
    generator.bit_generator.state = found
    return generator


def _legacy_generator(state: Any, arrays: Mapping[str, Any]) -> np.random.RandomState:
    generator = np.random.RandomState()
    generator.set_state(unpack(state, arrays))
    return generator


def _python_generator(state: Any, arrays: Mapping[str, Any]) -> random.Random:
    generator = random.Random()
    generator.setstate(unpack(state, arrays))
    return generator


_UNPACKED: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "array": _array,
    "tensor": lambda name, arrays: keras.ops.convert_to_tensor(_array(name, arrays)),
    "scalar": lambda value, _: np.dtype(value[0]).type(value[1]),
    "tuple": lambda items, arrays: tuple(unpack(items, arrays)),
    "dict": lambda pairs, arrays: {unpack(key, arrays): unpack(each, arrays) for key, each in pairs},
    "set": lambda items, arrays: set(unpack(items, arrays)),
    "frozenset": lambda items, arrays: frozenset(unpack(items, arrays)),
    "deque": lambda value, arrays: deque(unpack(value[1], arrays), value[0]),
    "bytes": lambda text, _: bytes.fromhex(text),
    "numpy generator": _generator,
    "numpy random state": _legacy_generator,
    "python generator": _python_generator,
    "operation": lambda name, _: _named_operation(name),
}


def _operation(value: Any) -> str | None:
    """The name of a Keras or NumPy operation, such as the one in a `ReduceLROnPlateau`; None for other values."""
    name = getattr(value, "__name__", None)
    if not callable(value) or not isinstance(name, str):
        return None
    return next((f"{root}.{name}" for root, home in _HOMES.items() if getattr(home, name, None) is value), None)


def _named_operation(name: str) -> Any:
    root, _, last = str(name).rpartition(".")
    if root not in _HOMES or not callable(found := getattr(_HOMES[root], last, None)):
        raise ValueError(f"{name!r} is not an operation of Keras or NumPy")
    return found


_HOMES = {"keras.ops": keras.ops, "numpy": np}
