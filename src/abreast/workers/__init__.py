"""Start, watch and end the processes of one job; the first failure ends all.

`Job` is the caller's side, `Worker` a worker's. What they work on is not here (see `backend/`). Linux only. Imports the
standard library and `errors`.
"""

from abreast.workers.job import Job
from abreast.workers.worker import COMMUNICATING, COMPUTING, IDLE, Worker, serve

__all__ = ["COMMUNICATING", "COMPUTING", "IDLE", "Job", "Worker", "serve"]
