"""The rows for `validation_split` of `fit`, cut off as Keras does."""

from __future__ import annotations

from typing import Any

from abreast.keras_private.data_adapters import train_validation_split


def cut_validation(arguments: dict[str, Any]) -> None:
    """Move the last rows of the arrays to `validation_data`, in place, as `fit` does.

    Args:
        arguments: The arguments of `fit`, by name.

    Raises:
        ValueError: Keras's own, for a source that is not an array.
    """
    if arguments["validation_split"] and arguments["validation_data"] is None:
        data = (arguments["x"], arguments["y"], arguments["sample_weight"])
        train, arguments["validation_data"] = train_validation_split(
            data, validation_split=arguments["validation_split"]
        )
        arguments["x"], arguments["y"], arguments["sample_weight"] = train
    arguments["validation_split"] = 0.0
