"""The rate at which two JAX processes on this host sum tensors, with one core each: `host_overhead.py` gives it to the plan.

    python benchmarks/jax_sums.py 262144,262144     (numbers of float32 per tensor)

XLA on CPUs hands one tensor after the other to gloo, which takes longer for many small ones than for a large one.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from host_pairs import ENVIRONMENT, two_cores

_SUMS = 12
_DROPPED = 2


def bytes_per_second(sizes: Sequence[int], cores: Sequence[int]) -> float:
    """Bytes of the tensors over the median time of a sum of all of them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    processes = [
        subprocess.Popen(
            ["taskset", "-c", f"{core}", sys.executable, __file__, json.dumps([rank, port, list(sizes)])],
            env=os.environ | ENVIRONMENT | {"JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, core in enumerate(cores)
    ]
    said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("jax_sums: a process has ended, and said why above")
    return 4 * sum(sizes) / json.loads(said[0].splitlines()[-1])  # gloo prints there, too


def _serve(rank: int, port: int, sizes: Sequence[int]) -> None:
    """One process: print the median seconds of a sum."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    mesh = Mesh(np.array(jax.devices()), ("process",))
    rows, whole = NamedSharding(mesh, PartitionSpec("process")), NamedSharding(mesh, PartitionSpec())
    own = [jax.make_array_from_process_local_data(rows, np.ones((1, size), "float32"), (2, size)) for size in sizes]
    summed = jax.jit(lambda tensors: [tensor.sum(0) for tensor in tensors], out_shardings=whole)
    seconds = []
    for _ in range(_SUMS):
        begin = time.perf_counter()
        jax.block_until_ready(summed(own))
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(statistics.median(seconds[_DROPPED:])), flush=True)
    jax.distributed.shutdown()


def main() -> None:
    if sys.argv[1].startswith("["):
        _serve(*json.loads(sys.argv[1]))
        return
    sizes = [int(word) for word in sys.argv[1].split(",")]
    rate = bytes_per_second(sizes, two_cores("jax_sums"))
    print(
        f"{rate / 1e6:.0f} MB/s: {4000 * sum(sizes) / rate:.1f} ms for {4 * sum(sizes) / 1e6:.1f} MB in {len(sizes)} tensors"
    )


if __name__ == "__main__":
    main()
