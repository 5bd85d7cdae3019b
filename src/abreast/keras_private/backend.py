"""Functions of the running framework, in the module where Keras looks them up.

`random` is the module of random functions: replacing one of its functions changes what layers draw. `Variable` is the
class of every Keras variable. `functions` is the module in which `keras.ops` looks up a framework's functions.
"""

from __future__ import annotations

from keras.src import backend as functions
from keras.src.backend import Variable, compute_output_spec, random

__all__ = ["Variable", "compute_output_spec", "functions", "random"]
