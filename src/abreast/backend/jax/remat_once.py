"""Layers that a function under `keras.remat` calls, where the function is wrapped once and kept.

JAX keeps its trace of such a function from the moment when Keras builds the model. The weights are constants in this trace, so
plain Keras does not train these layers. On several devices, JAX traces the function again.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import jax
import keras
from keras import tree

from abreast import exact
from abreast.users_functions import full_cells


def announce(model: Any) -> None:
    """Warn, once per model, of the layers that plain Keras would not train."""
    names = {f"{exact.name_of(layer)}.{name}": found for layer, name, found in _kept_in(model) if found}
    if names:
        layers = dict.fromkeys(exact.name_of(layer) for found in names.values() for layer in found)
        exact.warn_once(
            model,
            "remat",
            f"{', '.join(names)}: keras.remat wraps this function once, and it calls {', '.join(layers)}. Plain Keras keeps "
            "the weights that it saw while it built the model, and does not train these layers. abreast trains them on several "
            "devices. If `call` wraps the function (`keras.remat(self.block)(x)`), plain Keras trains them, too",
        )


def _kept_in(model: Any) -> Iterator[tuple[Any, str, list[Any]]]:
    """Each attribute of a layer with such functions: the layer, the name, and the layers with weights that they call."""
    for layer in model._flatten_layers():
        for name, value in list(vars(layer).items()):
            if functions := [each.__wrapped__ for each in _items(value) if _is_wrapped(each)]:
                called = [each for function in functions for each in _called(model, layer, function)]
                yield layer, name, [each for each in called if each.trainable_variables]


@functools.cache
def _code() -> Any:
    """The code that all functions of `jax.checkpoint` share."""
    return jax.checkpoint(lambda: None).__code__


def _is_wrapped(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and value.__code__ is _code() and hasattr(value, "__wrapped__")


def _items(value: Any) -> list[Any]:
    contents = exact.contents_of(value)
    if contents is None:
        return list(value) if isinstance(value, tuple) else [value]
    return exact.values_of(contents)


def _called(model: Any, owner: Any, function: Any) -> list[Any]:
    """The layers that a function may call: itself, those in outer variables, and those in attributes that its code names."""
    if isinstance(function, keras.Layer):
        return [function]
    itself = getattr(function, "__self__", owner)
    names = exact.names_in(model, function)
    own = vars(itself).items() if isinstance(itself, keras.Layer) else ()
    held = [value for name, value in own if name in names]
    plain = getattr(function, "__func__", function)
    outer = full_cells(plain) if isinstance(plain, types.FunctionType) else []
    held += [cell.cell_contents for cell in outer]
    return [each for each in tree.flatten(held) if isinstance(each, keras.Layer) and each is not itself]
