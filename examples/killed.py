"""Kill a training again and again, go on each time on another number of devices, and compare its end with one that ran through.

The training is `digits.py`, unchanged, under `abreast run --checkpoint`. It is killed with SIGKILL, which no program can foresee,
and once with SIGTERM, at which it saves and ends with 75. All devices are simulated on the CPU.

    python examples/killed.py --backend jax
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOST_DIFFERENCE = 1e-4  # float32: another number of devices sums in another order


def command(options, devices, output, *more):
    words = ["--quiet", "--backend", options.backend, "--cpu-devices", str(devices), *more]
    script = [str(HERE / "digits.py"), "--epochs", str(options.epochs), "--output", str(output)]
    return [sys.executable, "-m", "abreast", "run", *words, *script]


def run_through(options, output):
    """The training on one device, without checkpoints."""
    subprocess.run(command(options, 1, output), stdout=subprocess.DEVNULL, check=True, env=environment())
    print(f"{'undisturbed':>12} on 1 device")


def run_and_kill(options, output, checkpoints, rng):
    """The same training, started until it has ended by itself."""
    signals = [signal.SIGKILL] * options.kills
    signals.insert(len(signals) // 2, signal.SIGTERM)
    for number in [*signals, None]:
        devices = rng.choice((1, 2, 4))
        words = command(options, devices, output, "--checkpoint", str(checkpoints), "--checkpoint-every", "10")
        before = newest(checkpoints)
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment())
        try:
            if number is not None and waits_for_another(checkpoints, before, process):
                time.sleep(rng.random())
                process.send_signal(number)
            code = process.wait()
        finally:
            process.kill()
        print(
            f"{ended(code):>12} on {devices} device{'s' if devices > 1 else ''}, began at {before or 'its beginning'}"
        )
        if code == 0:
            return
        if code not in (75, -signal.SIGKILL):
            sys.exit(f"the training ended with {code}")


def newest(checkpoints):
    found = sorted(path.name for path in checkpoints.glob("[!.]*"))
    return found[-1] if found else None


def waits_for_another(checkpoints, before, process):
    """Whether the training has written a checkpoint, before it has ended."""
    while process.poll() is None:
        if newest(checkpoints) != before:
            return True
        time.sleep(0.05)
    return False


def ended(code):
    return {0: "ended", 75: "SIGTERM, 75", -signal.SIGKILL: "SIGKILL"}.get(code, str(code))


def environment():
    quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **quiet}


def difference(backend, one, other):
    """The largest difference of a weight between two saved models."""
    os.environ.update(environment() | {"KERAS_BACKEND": backend})
    import keras
    import numpy as np

    weights = [keras.saving.load_model(folder / "digits.keras").get_weights() for folder in (one, other)]
    return max(float(np.abs(mine - theirs).max()) for mine, theirs in zip(*weights, strict=True))


def main():
    parser = argparse.ArgumentParser(description="Kill a training again and again, and compare its end.")
    parser.add_argument("--backend", choices=("jax", "tensorflow", "torch"), default="jax")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1000))
    parser.add_argument("--output", type=Path, default=Path("demo-output/killed"))
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    print(f"seed {options.seed}")
    run_through(options, options.output / "undisturbed")
    run_and_kill(options, options.output / "killed", options.output / "checkpoints", random.Random(options.seed))
    found = difference(options.backend, options.output / "undisturbed", options.output / "killed")
    print(f"largest difference of a weight: {found:.1e}")
    return 0 if found < MOST_DIFFERENCE else 1


if __name__ == "__main__":
    sys.exit(main())
