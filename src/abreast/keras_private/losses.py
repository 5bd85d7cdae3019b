"""The modules of Keras's losses: `loss` has the base class and reductions, `losses` the losses.

These are modules and not names: `abreast.exact` puts its own reductions in their place.
"""

from __future__ import annotations

from keras.src.losses import loss, losses

__all__ = ["loss", "losses"]
