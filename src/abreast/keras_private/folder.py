"""The folder of Keras's source, to tell Keras's frames in a stack from the user's."""

from __future__ import annotations

import os

from keras import src

FOLDER: str = os.path.dirname(src.__file__)
