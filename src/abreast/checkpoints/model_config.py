"""Keras's description of a model, as text in a checkpoint: `abreast checkpoints export` builds the model from it."""

from __future__ import annotations

import json
from typing import Any

from keras import saving


def config_of(model: Any) -> str | None:
    """The JSON of `keras.saving.serialize_keras_object(model)`; None for a model that Keras cannot describe.

    A checkpoint is complete without it: a training continues with the model that the script builds.
    """
    try:
        return json.dumps(saving.serialize_keras_object(model))
    except Exception:  # any error of a user's `get_config`
        return None
