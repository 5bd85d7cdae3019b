"""Calls of `fit`, `evaluate` and `predict` that all processes of a launcher make together: the part above the backends.

`call.py` prepares a call. Callbacks of one process count in all (`acting.py`), callbacks that write act on rank 0 (`writers.py`),
and the processes agree on `stop_training` (`stop.py`). Keras prints on rank 0 only (`output.py`), model files are always complete
(`saving.py`), and only rank 0 may keep predictions (`predictions.py`). Not here: the exchanges in a step (`backend/`).
Importing this loads Keras.
"""

from abreast.together.acting import of_all as callbacks_of_all
from abreast.together.call import install, take_part

__all__ = ["callbacks_of_all", "install", "take_part"]
