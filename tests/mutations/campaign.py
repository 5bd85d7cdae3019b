"""Mutated inputs over all readers: `python -m tests.mutations.campaign --count 1000`. One JSON line for each reader.

Each reader works in a process of its own with 1 GiB of memory. What is no `AbreastError`, takes more than ten seconds or
ends the process is a failure, with the seed that repeats it: `--reader NAME --begin SEED --count 1`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from abreast.errors import AbreastError

NAMES = (
    *(f"image {kind}" for kind in ("jpeg", "png", "webp", "gif", "bmp", "tiff", "ppm")),
    *("tar", "tfrecord", "recordio", "parquet", "records", "csv", "packed, verified", "packed, shown"),
    *("bench lines", "bench predictions", "bench cases", "plan machine", "plan measured"),
)
_MEMORY_BYTES, _MOST_SECONDS = 1 << 30, 10


def run(reader: str, begin: int, count: int, seconds: float = 3600.0) -> dict[str, Any]:
    """The results of inputs `begin` to `begin + count`, in a separate process; fewer if `seconds` are over."""
    words = ["-m", __spec__.name if __spec__ else "tests.mutations.campaign", "--here", "--reader", reader]
    words += ["--begin", str(begin), "--count", str(count), "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory(prefix="abreast-mutations-") as folder:
        done = subprocess.run(
            [sys.executable, *words, "--folder", folder], capture_output=True, text=True, timeout=seconds + 120
        )
        if done.returncode == 0:
            return dict(json.loads(done.stdout.splitlines()[-1]))
        seed = Path(folder, "seed")
        last = (seed.read_text() if seed.exists() else "") or str(begin)
    failure = {"seed": int(last), "error": f"the process ended with {done.returncode}: {done.stderr[-300:]}"}
    return {"reader": reader, "begin": begin, "inputs": int(last) - begin + 1, "failures": [failure]}


def here(reader: str, begin: int, count: int, folder: Path, seconds: float) -> dict[str, Any]:
    """The same in this process."""
    from tests.mutations.readers import emptied, readers

    warnings.simplefilter("ignore")
    found = readers(emptied(folder / "samples"))[reader]
    limit = _data_bytes() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    signal.signal(signal.SIGALRM, _too_long)
    outcomes = {"read": 0, "refused": 0}
    failures: list[dict[str, Any]] = []
    slowest, end, seed = 0.0, time.monotonic() + seconds, begin
    for seed in range(begin, begin + count):
        (folder / "seed").write_text(str(seed))
        path = found.write(emptied(folder / "input"), random.Random(seed))
        start = time.monotonic()
        signal.alarm(_MOST_SECONDS)
        try:
            found.read(path)
            outcomes["read"] += 1
        except AbreastError:
            outcomes["refused"] += 1
        except BaseException as error:
            failures.append({"seed": seed, "error": "".join(traceback.format_exception(error))[-600:]})
        signal.alarm(0)
        slowest = max(slowest, time.monotonic() - start)
        if time.monotonic() > end:
            break
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) // 1024
    facts = {"reader": reader, "begin": begin, "inputs": seed - begin + 1, **outcomes}
    return facts | {
        "failures": failures[:5],
        "num_failures": len(failures),
        "slowest_seconds": slowest,
        "peak_mib": peak,
    }


def _data_bytes() -> int:
    """The memory of this process so far, including the stacks of its threads."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmData"].split()[0]) * 1024


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"more than {_MOST_SECONDS} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reader", choices=NAMES, action="append")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="inputs for each reader")
    parser.add_argument("--seconds", type=float, default=3600.0, help="the most for each reader")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    failed = 0
    for reader in options.reader or NAMES:
        if options.here:
            print(json.dumps(here(reader, options.begin, options.count, options.folder, options.seconds)))
            return 0
        found = run(reader, options.begin, options.count, options.seconds)
        print(json.dumps(found), flush=True)
        failed += len(found["failures"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
