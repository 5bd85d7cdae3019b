"""The rank of this process, the number of processes, and the host. Only this package reads launchers' environment variables.

`world.py` has a launcher's report, `variables.py` reads one number. `ray_train.py`, `torchrun.py`, `open_mpi.py`, `hydra.py`
and `slurm.py` read launchers that start each process, `hosts.py` launchers that start one process per host, `by_variables.py`
and `cluster_json.py` variables that any program may set, `by_hand.py` hosts that the user names. `known.py` lists the launchers
and chooses the valid one, `own_device.py` a process's devices. `route.py` and `own_addresses.py` find addresses of this host.
The package starts no process and opens no connection.
"""

from abreast.launchers.known import is_main_process, rank, read_world
from abreast.launchers.own_device import own_device, own_devices
from abreast.launchers.world import LauncherName, World, address_of_rank_0

__all__ = [
    "LauncherName",
    "World",
    "address_of_rank_0",
    "is_main_process",
    "own_device",
    "own_devices",
    "rank",
    "read_world",
]
