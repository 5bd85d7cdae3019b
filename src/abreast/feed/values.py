"""Values that a source's objects hold: detection of changes, their saved form, and how they are put back.

Arrays of more than 16 MiB are compared by 65,536 of their elements: a change of a few elements can go unnoticed. Imports no
framework.
"""

from __future__ import annotations

import marshal
import random
import zlib
from collections import deque
from typing import Any

import keras
import numpy as np

from abreast.feed.parts import array_digest
from abreast.keras_private.data_adapters import DataAdapter

_WHOLE_BYTES = 2**24
_SAMPLES = 2**16
_SAMPLES_OF_DISK = 2**8  # of a memory-mapped array: each may be a read of the disk
_LARGEST_BYTES = 2**30  # of the largest array that is saved
PLAIN = (type(None), bool, int, float, complex, str, bytes, range)
_QUICK = {type(None), bool, int, float, str, bytes}  # whose `repr` is the same in every process
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_NOT_USERS = ("keras.", "jax.", "jaxlib.", "tensorflow.", "numpy.", "abreast.", "builtins.")


def is_object(value: Any) -> bool:
    """Whether a value is an object of a user's class, or a data set or sampler of PyTorch, whose attributes count."""
    kind = type(value)
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, (type, np.ndarray, random.Random, DataAdapter, *PLAIN, *CONTAINERS))
        and not f"{kind.__module__}.".startswith(_NOT_USERS)
        and not _is_torchs(value)
        and not isinstance(value, keras.Layer)
    )


def is_generator(value: Any) -> bool:
    """Whether a value is a random generator."""
    kinds = (np.random.Generator, np.random.RandomState, random.Random)
    return isinstance(value, kinds) or (_is_torchs(value) and type(value).__name__ == "Generator") or _is_kerass(value)


def content(value: Any) -> Any:
    """A value's content for comparison, in this process or another; for an object of another kind, its identity."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), _checksum(value)
    if is_generator(value) or _is_torchs(value):
        return content(_state_of(value))
    if isinstance(value, np.generic):
        return str(value.dtype), repr(value.item())
    if isinstance(value, CONTAINERS):
        return _content_of_container(value)
    return id(value)


def text_of_data(value: Any) -> str | None:
    """A text that is the same in every process for equal data; None for objects, random generators, and containers of them."""
    if isinstance(value, CONTAINERS):
        held = _repeatable(value)
        return (
            None if held is None else f"{type(value).__name__} of {len(value)}, {zlib.crc32(repr(held).encode()):08x}"
        )
    is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
    return repr(content(value)) if is_array or isinstance(value, (*PLAIN, np.generic)) else None


def _repeatable(container: Any) -> Any:
    """The contents of a container, in a form whose `repr` is the same in every process; None if it holds objects."""
    if type(container) in (list, tuple) and set(map(type, container)) <= _QUICK:
        return container
    texts: list[Any] = [text_of_data(each) for each in _parts(container)]
    if None in texts:
        return None
    return sorted(texts) if isinstance(container, set | frozenset) else texts


def is_plain(value: Any) -> bool:
    """Whether a value can be saved as data."""
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject and value.nbytes <= _LARGEST_BYTES
    if isinstance(value, CONTAINERS):
        return _dumped(value) is not None or all(map(is_plain, _parts(value)))
    return isinstance(value, (*PLAIN, np.generic)) or is_generator(value) or _is_torchs(value)


def saved_value(value: Any) -> Any:
    """A value in its saved form: PyTorch's and Keras's as arrays. `fill` takes their kind from the present value."""
    return _state_of(value) if _is_torchs(value) or _is_kerass(value) else value


def fill(present: Any, value: Any) -> bool:
    """Copy the content of `value` into an object that the script may also hold; False if it does not fit."""
    if _is_torchs(present) and isinstance(value, np.ndarray):
        return _fill_torchs(present, value)
    if _is_kerass(present) and isinstance(value, list):
        for variable, each in zip(_seeds_of(present), value, strict=True):
            variable.assign(each)
        return True
    if type(present) is not type(value):
        return False
    if is_generator(present):
        return _fill_generator(present, value)
    if isinstance(present, np.ndarray):
        fits = present.flags.writeable and present.shape == value.shape and present.dtype == value.dtype
        if fits:
            present[...] = value
        return fits
    if isinstance(present, list):
        present[:] = value
    elif isinstance(present, dict | set):
        items = value.copy()
        present.clear()
        present.update(items)
    elif isinstance(present, deque) and present.maxlen == value.maxlen:
        present.clear()
        present.extend(value)
    else:
        return False
    return True


def _fill_generator(present: Any, value: Any) -> bool:
    if isinstance(present, random.Random):
        present.setstate(value.getstate())
    elif isinstance(present, np.random.RandomState):
        present.set_state(value.get_state())
    else:
        if type(present.bit_generator) is not type(value.bit_generator):
            return False
        present.bit_generator.state = value.bit_generator.state
    return True


def _fill_torchs(present: Any, value: Any) -> bool:
    is_state = type(present).__name__ == "Generator"
    held = present.get_state() if is_state else present.detach()
    if tuple(held.shape) != value.shape or held.device.type != "cpu":
        return False
    held.numpy()[...] = value
    if is_state:
        present.set_state(held)
    return True


def _is_torchs(value: Any) -> bool:
    """Whether a value is a generator or a tensor of PyTorch."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "torch" and kind.__name__ in ("Generator", "Tensor")


def _is_kerass(value: Any) -> bool:
    """Whether a value is a generator of Keras, or a layer that may have generators."""
    return isinstance(value, keras.random.SeedGenerator | keras.Layer)


def _seeds_of(value: Any) -> list[Any]:
    """The variables of the generators of Keras in a value."""
    if isinstance(value, keras.random.SeedGenerator):
        return [value.state]
    return [each for each in value.variables if each.dtype == "uint32"]


def _state_of(generator: Any) -> Any:
    """The state of a generator, or the values of a tensor."""
    if _is_kerass(generator):
        return [np.array(each) for each in _seeds_of(generator)]
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    if isinstance(generator, random.Random):
        return generator.getstate()
    if type(generator).__name__ == "Generator":
        return generator.get_state().numpy().copy()
    return generator.detach().cpu().numpy().copy()


def _checksum(array: Any) -> int:
    if array.dtype.hasobject:
        return zlib.crc32(repr([type(each).__name__ for each in array.flat[:_SAMPLES]]).encode())
    most = array.size if array.nbytes <= _WHOLE_BYTES else _SAMPLES
    if isinstance(array, np.memmap):
        most = min(most, _SAMPLES_OF_DISK)
    step = max(1, array.size // max(1, most))
    return array_digest(array.reshape(-1)[::step] if array.flags.c_contiguous else array.flat[::step])


def _content_of_container(value: Any) -> Any:
    if (dumped := _dumped(value)) is not None and not isinstance(value, set | frozenset):
        return type(value).__name__, len(value), zlib.crc32(dumped)
    parts = (
        sorted(map(repr, map(content, value))) if isinstance(value, set | frozenset) else map(content, _parts(value))
    )
    return type(value).__name__, len(value), zlib.crc32(repr(list(parts)).encode())


def _dumped(value: Any) -> bytes | None:
    """Plain data as bytes, quickly; None for a container of anything else."""
    try:
        return marshal.dumps(value, 2)  # version 2 has no references, which depend on other holders of a value
    except ValueError:
        return None


def _parts(value: Any) -> list[Any]:
    return [*value, *value.values()] if isinstance(value, dict) else list(value)
