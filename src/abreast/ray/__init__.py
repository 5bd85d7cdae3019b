"""Ray as a launcher: Ray Train places a worker on each host, and each worker starts the user's script in a process of its own.

`trainer.py` makes the trainer, `loop.py` runs in each of its workers, `child.py` starts and ends the process of the script.
`command.py` is `abreast run --ray`: `cluster.py` connects to Ray, `output.py` brings rank 0's output to the terminal, and
`failure.py` turns Ray's errors into ours. Importing this does not import Ray.
"""

from abreast.ray.trainer import trainer

__all__ = ["trainer"]
