"""The names of Keras's custom objects: those that are registered, and those of the scopes that the code is in."""

from __future__ import annotations

from typing import Any

from keras.src.saving.object_registration import GLOBAL_CUSTOM_NAMES, GLOBAL_CUSTOM_OBJECTS

from abreast.keras_private.global_state import get_global_attribute


def custom_objects() -> dict[str, Any]:
    """The custom objects by name."""
    return {**GLOBAL_CUSTOM_OBJECTS, **(get_global_attribute("custom_objects_scope_dict") or {})}


def register(name: str, value: Any) -> None:
    """Register an object as `keras.saving.register_keras_serializable` does."""
    GLOBAL_CUSTOM_OBJECTS[name] = value
    if callable(value):
        GLOBAL_CUSTOM_NAMES[value] = name


def unregister(name: str) -> None:
    """Forget the object of a name."""
    value = GLOBAL_CUSTOM_OBJECTS.pop(name, None)
    if callable(value):
        GLOBAL_CUSTOM_NAMES.pop(value, None)
