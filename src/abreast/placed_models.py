"""The placements of models: every placed model has a `Placement`, all others are plain Keras.

A placement comes from a `with` block of the thread, from `abreast run` (the default), or from `parallelize`. Not here: making a
placement (`parallel.py`), and its use in `fit` (`keras_fit.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from abreast.backend.contract import Placement

_placements: WeakKeyDictionary[Any, Placement] = WeakKeyDictionary()
_default: Placement | None = None
_nothing_placed = False
_active = threading.local()  # the placements whose `with` blocks this thread is in


def placement_of(model: Any) -> Placement | None:
    """A model's placement; None for plain Keras. The first use of a model inside a scope tags it."""
    if _nothing_placed:
        return None
    placement = _placements.get(model)
    if placement is None and (around := _around()) is not None:
        placement = tag(model, around)
    return placement


def _around() -> Placement | None:
    stack = scopes()
    return stack[-1] if stack else _default


def scopes() -> list[Placement]:
    """The placements whose `with` blocks this thread is in, the innermost last."""
    if not hasattr(_active, "stack"):
        _active.stack = []
    stack: list[Placement] = _active.stack
    return stack


def tag(model: Any, placement: Placement) -> Placement:
    """Place a model; if its placement changes, its step functions are made again."""
    if _placements.get(model) != placement:
        _placements[model] = placement
        model.train_function = model.test_function = model.predict_function = None
    return placement


def placed_before(model: Any) -> Placement | None:
    """The placement with which a model was tagged; None if it never was. Tags nothing."""
    return _placements.get(model)


def untag(model: Any) -> None:
    """Let a model train with plain Keras."""
    _placements.pop(model, None)
    model.train_function = model.test_function = model.predict_function = None


@contextmanager
def as_default(placement: Placement) -> Iterator[None]:
    """Inside, every model of the process without a scope of its own has this placement."""
    global _default
    before, _default = _default, placement
    try:
        yield
    finally:
        _default = before


def is_nothing_placed() -> bool:
    """True inside `nothing_placed`."""
    return _nothing_placed


def _tag_with_its_step(model: Any, placement: Placement) -> None:
    function = model.train_function
    tag(model, placement)
    model.train_function = function


def _forget_step_functions() -> None:
    for model in list(_placements):
        model.train_function = model.test_function = model.predict_function = None


@contextmanager
def nothing_placed() -> Iterator[None]:
    """Inside, train all models of the process with plain Keras, regardless of their placement: one side of a comparison."""
    global _nothing_placed
    _nothing_placed = True
    _forget_step_functions()
    try:
        yield
    finally:
        _nothing_placed = False
        _forget_step_functions()


@contextmanager
def on_first_devices(model: Any, count: int) -> Iterator[None]:
    """Inside, train a placed model on the first `count` of its devices, with its present training step."""
    placement = _placements[model]
    _tag_with_its_step(model, replace(placement, devices=placement.devices[:count]))
    try:
        yield
    finally:
        _tag_with_its_step(model, placement)


def placement_facts() -> dict[str, list[str]]:
    """The devices of all models that are placed now, and the `batch_norm` settings of their placements."""
    placements = [] if _nothing_placed else list(_placements.values())
    devices = sorted({device for placement in placements for device in placement.devices})
    return {"devices": devices, "batch_norm": sorted({placement.batch_norm for placement in placements})}
