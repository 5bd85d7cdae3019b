"""`predict_on_rank_0`: predictions that only rank 0 keeps. With Keras's own `predict`, all processes keep them."""

from __future__ import annotations

from typing import Any

from abreast.errors import DataError
from abreast.launchers import rank
from abreast.placed_models import placement_of


def predict_on_rank_0(model: Any, x: Any, **options: Any) -> Any:
    """The predictions of a model on rank 0; None in every other process, which saves their memory there.

    `model.predict` returns them in all processes. All processes make this call together.

    Args:
        model: a Keras model.
        x: the data, as `model.predict` takes it.
        **options: further arguments of `model.predict`, such as `batch_size`. Callbacks see no outputs on the other ranks.

    Returns:
        The result of `model.predict`, or None.

    Raises:
        DataError: the model was placed with `source="per-host"`, so that each process predicts for rows of its own.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> predictions = abreast.predict_on_rank_0(model, np.ones((6, 4), "float32"), verbose=0)
        >>> if predictions is not None:
        ...     print(predictions.shape)
        (6, 1)
    """
    placement = placement_of(model)
    job = None if placement is None else placement.backend.job
    if placement is None or job is None:
        return model.predict(x, **options) if rank() == 0 else None
    if placement.is_per_host:
        raise DataError(
            'with source="per-host" each process predicts for rows of its own, and rank 0 has no others',
            "use model.predict, which returns the predictions for the rows of this process",
        )
    job.predicts_for_rank_0 = True
    try:
        predictions = model.predict(x, **options)
    finally:
        job.predicts_for_rank_0 = False
    return None if job.rank else predictions
