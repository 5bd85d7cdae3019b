"""TensorFlow's part of the row check before the first step: the model runs on the first device, operation by operation."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import stateful_random_ops

from abreast.backend.tensorflow.eager_watch import EagerWatch
from abreast.backend.tensorflow.functions import inlined
from abreast.backend.tensorflow.variables import ON_FOREIGN

_SEED = 5_915_587_277  # an arbitrary number that users are unlikely to use as a seed


class TensorFlowProbe:
    """See `exact.Probe`."""

    def __init__(
        self, model: Any, device: str, is_one_process: bool = True, unbuilt: frozenset[int] = frozenset()
    ) -> None:
        self._model, self.device = model, device
        self.noise = 4e-3 if "GPU" in self.device else 3e-6  # a GPU's kernels are chosen by the number of rows
        self._seeds: _Seeds | None = None
        self._changed = ""
        self.watch = EagerWatch(unbuilt)
        self.is_one_process = is_one_process
        self.has_own_python = False

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        others = _others(self._model)
        values = [tf.identity(variable) for variable in others.values()]
        found: list[tuple[Any, Any]] = []

        def note(variable: Any) -> None:
            if all(variable is not known for known, _ in found):
                found.append((variable, tf.identity(variable)))

        ON_FOREIGN.append(note)
        running = context.context()
        seeds = getattr(running, "_rng", None)
        everywhere = getattr(stateful_random_ops, "global_generator", None)
        state = None if everywhere is None else tf.identity(everywhere.state)
        if seeds is not None:
            running._rng = self._seeds = _Seeds(seeds)
        try:
            watching = self.watch.watching() if self._model.run_eagerly else nullcontext()  # else the graph shows it
            with inlined(num_replicas=1), tf.device(self.device), tf.summary.record_if(False), watching:
                yield
        finally:
            ON_FOREIGN.remove(note)
            for (name, variable), value in zip(others.items(), values, strict=True):
                if not bool(tf.reduce_all(variable == value)):
                    self._changed = self._changed or name
                variable.assign(value)
            for variable, value in found:
                self._changed = self._changed or _name_of(variable, self._model)
                variable.assign(value)
            if seeds is not None and running._rng is self._seeds:
                running._rng = seeds
            if everywhere is not None:
                everywhere.reset(state)

    def rewind(self, generators: bool = True) -> None:
        if generators and self._seeds is not None:
            self._seeds.own = random.Random(_SEED)

    def drew(self) -> bool:
        return self._seeds is not None and self._seeds.own.getstate() != random.Random(_SEED).getstate()

    def reads_values(self) -> bool:
        return self.watch.reads_rows

    def depends_on_values(self) -> bool:
        return False  # replicas that take different paths are found out where they meet (`turns.py`)

    def gradients(self, compute: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> list[Any] | None:
        tensors = [tf.identity(value) for value in values]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(tensors)
            number = compute(tensors)
        return None if number is None else [_dense(each) for each in tape.gradient(number, tensors)]

    def foreign(self) -> str:
        return self._changed


class _Seeds:
    """TensorFlow's generator of operation seeds, used when a global seed is set; this thread gets a private one.

    Restoring the user's generator afterwards would not work: a source in another thread may draw from it meanwhile, and a kernel
    that was made for a seed continues its sequence.
    """

    def __init__(self, plain: random.Random) -> None:
        self._plain, self._thread = plain, threading.get_ident()
        self.own = random.Random(_SEED)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own if threading.get_ident() == self._thread else self._plain, name)


def _dense(gradient: Any) -> Any:
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def _others(model: Any) -> dict[str, Any]:
    """TensorFlow variables that layers hold and Keras does not track, alone or in containers, as `{place: variable}`."""
    known = {id(variable._value) for variable in model.variables}
    found: dict[int, tuple[str, Any]] = {}
    for layer in model._flatten_layers():
        for name, value in vars(layer).items():
            for leaf in _leaves(value):
                if isinstance(leaf, tf.Variable) and id(leaf) not in known:
                    found.setdefault(id(leaf), (f"{layer.name}.{name}", leaf))
    return {f"{name} {number}" if number else name: leaf for number, (name, leaf) in enumerate(found.values())}


def _name_of(variable: Any, model: Any) -> str:
    """The global that holds a TensorFlow variable, in the script or in the module of `train_step`; else the variable's name."""
    own = getattr(model, "train_step", None)
    spaces = [vars(sys.modules["__main__"]), getattr(getattr(own, "__func__", own), "__globals__", {})]
    names = [name for space in spaces for name, value in list(space.items()) if value is variable]
    return names[0] if names else str(variable.name)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    return list(value.values()) if isinstance(value, dict) else [value]
