"""The folder of Keras's source: frames of a stack in it are Keras's, not the user's."""

from __future__ import annotations

import os

from keras import src

FOLDER: str = os.path.dirname(src.__file__)
