"""The module of `keras.distribution`, and the distribution that Keras itself follows.

Keras looks these functions up in the module; `keras.distribution` has the same ones for scripts.
"""

from __future__ import annotations

from keras.src.distribution import distribution_lib as module

__all__ = ["current", "module"]

current = module.distribution
