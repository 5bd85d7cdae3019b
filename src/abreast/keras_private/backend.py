"""What Keras calls of the running framework, in the module where Keras looks it up.

`random` is the module of random functions: replacing one of its functions changes what layers draw. `Variable` is the
class of every Keras variable.
"""

from __future__ import annotations

from keras.src.backend import Variable, compute_output_spec, random

__all__ = ["Variable", "compute_output_spec", "random"]
