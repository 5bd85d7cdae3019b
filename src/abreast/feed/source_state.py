"""The state of a source's own objects: the changes by their hooks and reads, and an adapter's counts.

A `PyDataset` may shuffle its indices in `on_epoch_end`, and a sampler may have a generator of its own. After a restart, nothing
has called these hooks: the changes are put back instead. Not here: how values are compared and copied (`values.py`), and the
place of a batch (`jump.py`). Imports no framework.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, Protocol, runtime_checkable

import keras

from abreast.feed.hollow import begin_workers_anew, order_of_workers, set_order_of_workers
from abreast.feed.tf_data import begin_up_to, num_begun
from abreast.feed.values import content, fill, is_generator, is_object, is_plain, saved_value
from abreast.keras_private.data_adapters import (
    ArrayDataAdapter,
    GeneratorDataAdapter,
    PyDatasetAdapter,
    TFDatasetAdapter,
    TorchDataLoaderAdapter,
    epoch_of,
    set_epoch,
)

_DEEPEST = 4  # objects within objects, and functions that call functions
_PAIRS = (("get_state", "set_state"), ("state_dict", "load_state_dict"))
_OWN, _ORDER, _BEGUN, _EPOCH, _GLOBALS = "own", "order", "begun", "epoch", "globals"


@runtime_checkable
class HasState(Protocol):
    """A data adapter of ours that counts by itself; users do not call its methods."""

    def _own_state(self) -> dict[str, Any]:
        """As JSON."""
        ...

    def _set_own_state(self, state: Mapping[str, Any]) -> None: ...


class SourceState:
    """The state of one source. Made when a `fit` begins: a restarted script makes everything that has not changed since.

    An object with `get_state` and `set_state`, or `state_dict` and `load_state_dict`, gives its state by these; any other
    object's attributes are compared.
    """

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._roots = _roots_of(adapter)
        self._begin = self._contents()
        self._written = self._begin
        self._held: dict[str, Any] = {}
        self.lost: tuple[str, ...] = ()

    def read(self) -> dict[str, Any]:
        """The changed numbers, text, containers, arrays and generators, by name. `lost` names all other changed values."""
        changed = {name: value for name, value in self._values().items() if self._begin.get(name) != content(value)}
        saved = {name: copy.deepcopy(saved_value(value)) for name, value in changed.items() if is_plain(value)}
        self.lost = tuple(name for name in changed if name not in saved)
        found: dict[str, Any] = {"attributes": saved}
        if isinstance(self._adapter, HasState):
            found[_OWN] = self._adapter._own_state()
        if (epoch := epoch_of(self._adapter)) is not None:
            found[_EPOCH] = epoch
        if isinstance(self._adapter, TFDatasetAdapter):
            found[_BEGUN] = num_begun(self._adapter.get_tf_dataset())
        if isinstance(self._adapter, PyDatasetAdapter) and self._adapter.enqueuer is not None:
            found[_ORDER] = order_of_workers(self._adapter)
        return found

    def hold(self, later: Mapping[str, Any]) -> None:
        """Hold the present values that a later state changes: `write` puts them back if its own state lacks them."""
        values = self._values()
        names = [name for name in later["attributes"] if name in values and is_plain(values[name])]
        self._held = {name: copy.deepcopy(saved_value(values[name])) for name in names}

    def write(self, saved: Mapping[str, Any]) -> None:
        """Put back a result of `read`, perhaps from another process."""
        for name, value in {**self._held, **saved["attributes"]}.items():
            self._put(name, copy.deepcopy(value))
        write_counts(self._adapter, saved)
        if isinstance(self._adapter, TFDatasetAdapter):
            begin_up_to(self._adapter.get_tf_dataset(), saved[_BEGUN])
        if _ORDER in saved:
            set_order_of_workers(self._adapter, saved[_ORDER])
        self._written = self._contents()

    def end_epoch(self) -> None:
        """Stop the workers: an earlier run has read the batches of the present epoch."""
        if isinstance(self._adapter, PyDatasetAdapter) and self._adapter.enqueuer is not None:
            self._adapter.enqueuer.stop()

    def begin_epoch(self) -> None:
        """Begin the next epoch after `write` of a state between two epochs."""
        if isinstance(self._adapter, PyDatasetAdapter) and self._adapter.enqueuer is not None:
            begin_workers_anew(self._adapter)

    def write_rest(self, saved: Mapping[str, Any]) -> None:
        """Put back a later state, except values that reads have changed since `write`: these may be further ahead."""
        present = self._contents()
        for name, value in saved["attributes"].items():
            if present.get(name) == self._written.get(name):
                self._put(name, copy.deepcopy(value))

    def is_as(self, saved: Mapping[str, Any]) -> bool:
        """Whether the source's objects have the values of this result of `read`."""
        present = self._contents()
        return all(present.get(name) == content(value) for name, value in saved["attributes"].items())

    def _put(self, name: str, value: Any) -> None:
        root, *path, last = name.split(".")
        owner = self._roots[root]
        for each in path:
            owner = vars(owner)[each]
        if last == _Own.NAME:
            _Own(owner).set(value)
        elif not fill(vars(owner).get(last), value):
            vars(owner)[last] = value

    def _contents(self) -> dict[str, Any]:
        return {name: content(value) for name, value in self._values().items()}

    def _values(self) -> dict[str, Any]:
        """The attributes of all objects of the source, by path."""
        seen: set[int] = set()
        return {
            f"{root}.{name}": value.get() if isinstance(value, _Own) else value
            for root, owner in self._roots.items()
            for name, value in _attributes(owner, seen, _DEEPEST)
        }


def write_counts(adapter: Any, saved: Mapping[str, Any]) -> None:
    """Put back the counts of an adapter; callbacks may read those of ours before an epoch begins."""
    if isinstance(adapter, HasState):
        adapter._set_own_state(saved[_OWN])
    if _EPOCH in saved:
        set_epoch(adapter, saved[_EPOCH])


class _Holder:
    """Objects by name."""

    def __init__(self, held: dict[str, Any]) -> None:
        vars(self).update(held)


def _roots_of(adapter: Any) -> dict[str, Any]:
    """The objects that hold a source's state, by name."""
    if isinstance(adapter, PyDatasetAdapter):
        return {"dataset": adapter.py_dataset, **_globals_of(type(adapter.py_dataset))}
    if isinstance(adapter, TorchDataLoaderAdapter):
        loader = adapter._dataloader
        held = {name: getattr(loader, name, None) for name in ("dataset", "sampler", "batch_sampler", "generator")}
        if keras.backend.backend() != "torch":  # there it is the framework's own generator
            held["torch"] = sys.modules["torch"].default_generator
        return {"loader": _Holder(held), **_globals_of(type(loader.dataset))}
    known = (ArrayDataAdapter, GeneratorDataAdapter, TFDatasetAdapter)
    if isinstance(adapter, known) or type(adapter).__module__.startswith(("keras.", "abreast.")):
        return {}
    return {"adapter": adapter, **_globals_of(type(adapter))}


class _Own:
    """An object with methods for its own state."""

    NAME = "state()"

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._read, self._write = next(pair for pair in _PAIRS if _has(owner, pair))

    def get(self) -> Any:
        return getattr(self._owner, self._read)()

    def set(self, state: Any) -> None:
        getattr(self._owner, self._write)(state)


def _has(owner: Any, methods: tuple[str, str]) -> bool:
    return all(callable(getattr(type(owner), name, None)) for name in methods)


def _attributes(owner: Any, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, and of the objects that it holds; each object once."""
    seen.add(id(owner))
    if any(_has(owner, pair) for pair in _PAIRS) and not hasattr(owner, "named_parameters"):  # as a PyTorch module has
        yield _Own.NAME, _Own(owner)
        return
    for name, value in list(vars(owner).items()):
        if not is_object(value):
            yield name, value
        elif id(value) not in seen and depth:
            yield from ((f"{name}.{path}", each) for path, each in _attributes(value, seen, depth - 1))


def _globals_of(kind: type) -> dict[str, _Holder]:
    """The global random generators that the methods of a user's class use."""
    held: dict[str, Any] = {}
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] not in ("builtins", "keras", "torch", "abreast", "typing"):
            for method in vars(each).values():
                if isinstance(function := getattr(method, "__func__", method), FunctionType):
                    _collect(function, held, _DEEPEST)
    return {_GLOBALS: _Holder(held)} if held else {}


def _collect(function: FunctionType, held: dict[str, Any], depth: int) -> None:
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if is_generator(value):
            held[name] = value
        elif isinstance(value, FunctionType) and depth and value.__module__ == function.__module__:
            _collect(value, held, depth - 1)


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes that a function uses, functions inside it included."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
