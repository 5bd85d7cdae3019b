"""One side of the contract, a process: `python -m benchmarks.gpu.parts.contract_side FILE DEVICES SIMULATED SECONDS NAMES`.

Runs jobs of `tests/contract/catalogue.py` by name and appends `(name, results)` of each to a file, as a pickle. With 0 devices
it is plain Keras on the first device, and abreast is not imported.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path


def main(path: str, devices: str, simulated: str, seconds: str, names: str) -> None:
    if int(devices) and int(simulated):
        import abreast

        abreast.use_cpu_devices(int(devices))
    from tests.contract.cases import run
    from tests.contract.catalogue import CASES

    began, longest = time.monotonic(), 0.0
    for name in json.loads(names):
        begin = time.monotonic()
        if begin - began + longest > float(seconds):
            break
        results = run(CASES[name], int(devices))
        longest = max(longest, time.monotonic() - begin)
        with Path(path).open("ab") as file:
            pickle.dump((name, results), file)
    assert int(devices) or "abreast" not in sys.modules, "plain Keras's process imported abreast"


if __name__ == "__main__":
    main(*sys.argv[1:])
