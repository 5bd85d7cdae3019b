"""Starts, watches and ends the processes of one job. The first failure ends all of them.

`Job` is the caller's side, `Worker` the side of a worker process; `failure.py` names the worker that failed. Not here: the work
itself (`backend/`). Linux only.
"""

from abreast.workers.job import Job
from abreast.workers.worker import COMMUNICATING, COMPUTING, IDLE, Worker, serve

__all__ = ["COMMUNICATING", "COMPUTING", "IDLE", "Job", "Worker", "serve"]
