"""Names of Keras's modules: classes and functions in them are Keras's own, not the user's."""

from __future__ import annotations

from typing import Any

# Each ends with a dot: `name.startswith(...)` then holds for modules inside the package only.
KERAS = "keras.src."
LAYERS = "keras.src.layers."
METRICS = "keras.src.metrics."


def module_of(written: Any) -> str:
    """The name of the module in which a function, a method or a class is written; "" if it has none.

    `__module__` does not show that: `functools.wraps` copies the one of another function.
    """
    names = getattr(getattr(written, "__func__", written), "__globals__", None)
    # The type of functions has a descriptor of that name.
    return str((names.get("__name__") if isinstance(names, dict) else getattr(written, "__module__", None)) or "")


def is_keras_or_ours(module: str) -> bool:
    """Whether a module belongs to Keras or abreast."""
    return module.partition(".")[0] in ("keras", "abreast")
