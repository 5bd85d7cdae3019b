"""A process that times all-reduces of several sizes over 2, 4, ... devices of a backend, with nothing else running.

`python -m abreast.machine.all_reduce_times REQUEST`: REQUEST is a JSON object; a JSON list goes to stdout. The output of
frameworks goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.argv[1])
    out.write(json.dumps(times(**request)))
    out.close()


def times(devices: list[int], sizes: list[int], simulated: bool) -> list[dict[str, Any]]:
    """Seconds of each all-reduce, and its bus bandwidth: a ring moves `2 (n - 1) / n` of the buffer over each link."""
    import abreast

    if simulated:
        abreast.use_cpu_devices(max(devices))
    found = []
    for count in devices:
        scope = abreast.DataParallel(count)
        backend = scope.placement.backend
        for size in sizes:
            seconds = backend.instruments.all_reduce_seconds(scope.placement, size)
            if seconds > 0:
                entry = {"devices": count, "bytes": size, "seconds": seconds, "backend": backend.name}
                found.append(entry | {"bus_bytes_per_second": 2 * (count - 1) / count * size / seconds})
        scope.close()
    return found


if __name__ == "__main__":
    main()
