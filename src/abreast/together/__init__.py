"""Calls of `fit`, `evaluate` and `predict` that all processes of a launcher make together: what is theirs above the backends.

`call.py` prepares a call. Callbacks that write act on rank 0 (`writers.py`), `stop_training` is agreed (`stop.py`), Keras prints
on rank 0 only (`output.py`), models are saved whole (`saving.py`), and predictions may be kept on rank 0 alone
(`predictions.py`). Not here: what the processes exchange in a step (`backend/`). Importing this loads Keras.
"""

from abreast.together.call import install, take_part

__all__ = ["install", "take_part"]
