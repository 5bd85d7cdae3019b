"""How Keras describes a model, as text for a checkpoint: `abreast checkpoints export` builds the model from it."""

from __future__ import annotations

import json
from typing import Any

from keras import saving


def config_of(model: Any) -> str | None:
    """The JSON of `keras.saving.serialize_keras_object(model)`; None for a model that Keras cannot describe.

    A checkpoint is complete without it: the training goes on with the model that the script builds.
    """
    try:
        return json.dumps(saving.serialize_keras_object(model))
    except Exception:  # of a user's `get_config`
        return None
