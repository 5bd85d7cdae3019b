"""Several processes train what one trains: on one host, on two emulated ones, and with several devices in each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.slow_links import ADDRESSES, Namespace, NotPermitted, slow_link
from tests.harness.client import ROOT
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.launched.job import result, start, start_all

pytestmark = pytest.mark.jax

# Each rank begins with other weights, another seed and thus another shuffle: only rank 0's may count. The script does not
# mention ranks otherwise.
SCRIPT = """
import json, os
from contextlib import nullcontext
rank = int(os.environ.get("RANK", "0"))
import abreast
if os.environ["CPU_DEVICES"] != "1" and "RANK" in os.environ:
    abreast.use_cpu_devices(int(os.environ["CPU_DEVICES"]))
scope = abreast.DataParallel() if "RANK" in os.environ else nullcontext()
import keras
import numpy as np
keras.utils.set_random_seed(rank)
with scope:
    first = keras.layers.Dense(8, use_bias=False)  # a bias before normalization moves by rounding alone
    layers = [first, keras.layers.BatchNormalization(), keras.layers.Dropout(0.2), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae", keras.metrics.RootMeanSquaredError()])
draws = np.random.default_rng(0)
x, y = draws.normal(size=(97, 4)).astype("float32"), draws.normal(size=(97, 3)).astype("float32")
rate = keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch))
fit = model.fit(x, y, batch_size=30, epochs=3, verbose=0, validation_split=0.2, callbacks=[rate])
found = {"history": fit.history, "predicted": model.predict(x, batch_size=30, verbose=0).tolist()}
found["weights"] = [weight.tolist() for weight in model.get_weights()]
found["one by one"] = keras.ops.convert_to_numpy(model(x[:3])).tolist()
found["on batch"] = [float(each) for each in model.train_on_batch(x[:29], y[:29])]
print(json.dumps(found), flush=True)
"""


def equal(alone: dict[str, object], ranks: list[dict[str, object]]) -> None:
    for name in alone:
        for rank in ranks:
            assert largest_difference(alone[name], rank[name]) < 1e-5, name


def listening(host: Namespace) -> list[str]:
    """The addresses and ports on which processes of a host listen."""
    lines = subprocess.run(host.command("ss", "-Hlntu"), capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[4].removeprefix("[::ffff:").replace("]", "") for line in lines]


@pytest.mark.in_turn
def test_processes_of_a_launcher_train_what_one_process_trains() -> None:
    skip_unless_installed("jax")
    alone = start(SCRIPT, None, 0, 1, backend="jax")
    ranks = start_all(SCRIPT, 2, address="127.0.1.1")  # what the own name of a Debian host stands for
    equal(result(alone), [result(each) for each in ranks])


@pytest.mark.in_turn
def test_hosts_with_several_devices_train_what_one_process_trains() -> None:
    """Emulated hosts whose own name stands for the loopback, as on many real ones. They listen on their link only."""
    skip_unless_installed("jax")
    assert listened_while_two_hosts_trained_alike(SCRIPT, "jax") <= set(ADDRESSES)


def listened_while_two_hosts_trained_alike(script: str, backend: str) -> set[str]:
    """Train on two emulated hosts with two devices each what one process trains; the addresses on which they listened."""
    try:
        with slow_link() as link:
            alone = start(script, None, 0, 1, backend=backend)
            ranks: list[subprocess.Popen[str]] = []
            listeners: set[str] = set()
            for rank, host in enumerate(link.hosts):
                ranks.append(start(script, rank, 20000, 2, backend=backend, cpu_devices=2, host=host))
                # Rank 0 listens until the other comes: it is seen, however soon both then close their listeners.
                while not listeners and ranks[0].poll() is None:
                    listeners.update(listening(host))
            while ranks[0].poll() is None:
                listeners |= {address for host in link.hosts for address in listening(host)}
                time.sleep(0.1)
            equal(result(alone), [result(each) for each in ranks])
    except NotPermitted as error:
        pytest.skip(error.args[0])
    assert listeners
    return {each.rpartition(":")[0] for each in listeners}


@pytest.mark.in_turn
def test_torchrun_starts_an_unchanged_script(tmp_path: Path) -> None:
    """Each rank saves into a folder of its own."""
    skip_unless_installed("jax")
    skip_unless_installed("torch")
    run = f"{sys.executable} -m abreast run --backend jax {ROOT / 'examples' / 'digits.py'} --epochs 1 --output "
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"]
    kept = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    said = []
    for words in (["bash", "-c", f"exec {run}alone"], [*launch, "bash", "-c", f"exec {run}rank$RANK"]):
        done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=tmp_path, env=kept, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr)
    alone, *ranks = [np.load(tmp_path / name / "predictions.npz") for name in ("alone", "rank0", "rank1")]
    for rank in ranks:
        np.testing.assert_allclose(rank["predictions"], alone["predictions"], atol=1e-5)
    assert "abreast: training with JAX on 2 ranks of torchrun, 2 of them on host" in said[1]
