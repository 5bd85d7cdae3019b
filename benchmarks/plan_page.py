"""Make `docs/reference/plan.md` and its figures: the model's formulas, its constants, and how well they predict.

    python benchmarks/plan_page.py [--check]

Numbers come from `results/plan_accuracy.jsonl` and `results/rossum.jsonl`, constants from the file that ships. Imports
`abreast.plan`, `lines` and `rossum`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lines
import rossum

from abreast.plan.constants import described
from abreast.plan.machine import devices, machines
from abreast.plan.models import models
from abreast.plan.software import EXCHANGES, SOFTWARE

_PAGE = Path(__file__).parent.parent / "docs" / "reference" / "plan.md"
_HEAD = """# The scaling model

Made by `python benchmarks/plan_page.py`; do not edit. [Planning](../guides/planning.md) shows how it is used.

## Formulas

A step of `n` devices on `m` hosts takes

    step = compute x (1 + straggling) + exposed + launches + update

- **compute** is the step of one device without its update, once per accumulated step. It is measured, given, or a roofline.
  A step that accumulates passes over 20 bytes per parameter on top, at the memory's bandwidth: it adds its gradient to the sum
  (two floats read, one written), and Keras passes over its accumulators (one read, one written).
- **straggling** is `straggle.*` x log2(n), and `straggle.hosts` x log2(m): the slowest replica decides.
- **exposed** is what the exchange of gradients adds. Of an exchange of `C` seconds beside a window of `W` seconds (the backward
  pass, two thirds of a step) it is `C - (1 - e) min(C, W)`, where `e` is
  `exposed.*`. The simulation finds it bucket by bucket; PyTorch's first one is full at 1 MiB.
- NCCL's kernels hold their part of a GPU while they wait for a network. gloo's threads sleep while they wait, and take the cores
  from the computation while they send, receive and add. Inside of a host there is nothing to wait for; so for gloo `e` is
  `K / C`, where `K` is what the exchange takes at the rate at which processes of one host sum a buffer: that of the link between
  devices, of kind `all-reduce`, as `abreast machine` measures it. To another host gloo sends no faster than that. Reading
  gradients and writing them into buckets adds two passes over them at the memory's bandwidth; of GPUs that is in `exposed.*`.
- **launches** is `launch.*` per gradient tensor and doubling of the devices, **update** `passes.update` passes over 16 bytes per
  parameter at the memory's bandwidth.
- A ring takes `2 (n - 1) / n` of the gradients' bytes over the slowest of its links, plus `2 (n - 1)` latencies; a tree
  twice the bytes and `2 log2 n` latencies; a hierarchy a ring in each host and one between hosts.
- gloo has 4 MiB under way between two hosts before it waits for an answer: a byte takes its time on the wire and that part of a
  round trip.
- A rate is its nominal value times `usable.*`, but all of a network's that was measured. TCP carries no more than
  `rate.tcp_most`.

An 80 % interval reaches `{floor} + {per_loss} x loss` to both sides as a logarithm, where `loss` is the logarithm of the
predicted step over that of perfect scaling; {assumed} more where facts had to be assumed, and by the roofline's factor where
the step time is one. Where its ends are more than six times apart, no prediction is made.

The simulation has the compute stream of the slowest device, and serves each kind of link in the order in which buckets become
ready. Its tests compare it with the formulas on random cases: equal to 1e-9 where they hold. `abreast plan` takes the part of the
exchange that cannot be hidden from the simulation, and the share `e` of the rest. For rings and hierarchies the result is within
10 % of the formulas above, which the accuracy below is for.

Many published rows are of systems that abreast does not train with: parameter servers, towers of TensorFlow 1, BytePS, sliced
batches of Keras 2. Their formulas are in `benchmarks/published_model.py`, and some constants below are theirs alone.

## What it does not know

Ports and cables are not simulated one by one: links of one kind are one resource. A collective does not slow another job's. The
memory that a batch needs is not checked. Encoding of compressed gradients is a number of passes over memory, assumed and not
measured. What compression and fewer exchanges do to convergence is not predicted.
"""

_SOURCES = """Rates are one way, nominal but for the kinds `measured` and `all-reduce`. Of each number there is a document of its
maker, or who measured it. Where we found the number a second time, that place is named too; where not, it says *not
re-checked*."""


def page() -> str:
    content = described()
    interval = {name: f"{value:g}" for name, value in content["interval"].items()}
    head = _HEAD.format(**interval)
    return "\n".join([head, _accuracy(), _rossum(), _constants(content), _words(), _shipped()])


def _accuracy() -> str:
    found = {line["case"]["leave_one_out"]: line for line in lines.read("plan_accuracy")}
    left_out = found[True]
    rows = [
        _figures(score)
        for score in [
            *left_out["scores"],
            {**left_out, "machine": "**average over machines**", "rows": left_out["case"]["rows"]},
        ]
    ]
    head = ("machine", "rows", "median", "mean", "90th percentile", "in 80 % interval", "null: median", "mean")
    case = left_out["case"]
    text = f"""## How well it predicts

{case["rows"]:,} published rows of {case["machines"]} machines, collected from Rossum's keras-multi-gpu, TensorFlow's benchmark
pages, NVIDIA's DeepLearningExamples, Lambda's logs, HKBU's ddl-benchmarks, Baidu's and others'. Absolute errors as shares of the
measured rate. Each machine is predicted by constants and given intervals that were fitted without it; the null model is perfect
linear scaling. The form of the model, and what was expected of its constants, were chosen with all these rows in sight: expect
larger errors on machines of another kind. Made by

    {left_out["command"]}

at {left_out["commit"]}. The small table in `benchmarks/published/` has some of these rows, with their sources."""
    return f"{text}\n\n{_table(head, rows)}\n"


def _figures(score: dict[str, Any]) -> tuple[object, ...]:
    names = ("median", "mean", "p90", "covered", "null_median", "null_mean")
    return (score["machine"], score["rows"], *(f"{100 * score[name]:.1f} %" for name in names))


def _rossum() -> str:
    """The tables of the first project that measured Keras on several GPUs, the reason for abreast."""
    found = rossum.newest()
    heads = ("machine", "model", "parameters", "GPUs", "cited images/s", "times one GPU")
    keras = _table((*heads, "predicted", "80 % interval", "off by"), rossum.rows_of_keras(found))
    heads = ("machine", "model", "GPUs", "Keras on one", "Keras on all", "abreast, 32 in all")
    ours = _table((*heads, "times one", "abreast, 32 each", "times one"), rossum.rows_of_abreast(found))
    text = f"""## Rossum's tables

Rossum measured Keras on GPUs in 2017, and found what abreast is for: more GPUs made training slower. Their rates are cited
(github.com/rossumai/keras-multi-gpu); **all else here is predicted**, each machine by constants that were fitted
without it. Keras 2 with TensorFlow 1.3 cuts batches of 32 images over the GPUs (avolkov1's `make_parallel`) and keeps the
parameters in host memory or on one GPU. 7gforce has six GTX 1070 on risers of one PCIe lane, az-2x-m60 two M60 behind PCIe x8.

{keras}

The same machines with abreast, predicted: a process per GPU, batches staged on the GPUs ahead of the step, a ring all-reduce of
buckets while the backward pass goes on. A step of one GPU is taken to be as long as Rossum's, which waited for its input: what
staging saves there is not counted. With 32 images in all a GPU of six has five of them, and the exchange over one lane takes
longer than they do; with 32 for each GPU it hides behind them in part.

{ours}

![ResNet-50 on 7gforce: Keras cited and predicted, abreast predicted](../images/rossum-resnet50.svg)

![Inception v3 on 7gforce: Keras cited and predicted, abreast predicted](../images/rossum-inception3.svg)

Full lines and filled marks are cited, dashes, hollow marks and their bands predicted; *in host memory* and *on a GPU* is where
Keras keeps the parameters. The intervals' widths are those that ship, which these rows helped to find. Made by

    {found[0]["command"]}

at {found[0]["commit"]}."""
    return f"{text}\n"


def _constants(content: dict[str, Any]) -> str:
    rows = [
        (f"`{name}`", f"{entry['value']:g}", f"{entry['expected']:g}", entry["unit"], entry["meaning"])
        for name, entry in content["constants"].items()
    ]
    text = f"""## Constants

Fitted on {content["fitted_on"]} by `python benchmarks/plan_fit.py`. A constant of which the rows say nothing keeps what was
expected of it before."""
    return f"{text}\n\n{_table(('constant', 'value', 'expected', 'unit', 'meaning'), rows)}\n"


def _words() -> str:
    exchanges = _table(("exchange", "meaning"), [(f"`{name}`", about) for name, about in EXCHANGES.items()])
    software = _table(("software", "meaning"), [(f"`{name}`", each.about) for name, each in SOFTWARE.items()])
    return f"## Exchanges and software\n\n{exchanges}\n\n{software}\n"


def _shipped() -> str:
    rows = []
    for name, machine in machines().items():
        link, network = machine.device_link, machine.network
        rows.append(
            (
                f"`{name}`",
                f"{machine.devices_per_host} x {machine.device.name}",
                f"{link.kind}, {link.bytes_per_second / 1e9:g} GB/s",
                "" if network is None else f"{network.kind}, {network.bytes_per_second / 1e9:g} GB/s",
                "; ".join(source for fact, source in machine.sources.items() if fact != "latency"),
            )
        )
    table = _table(("machine", "devices of a host", "between devices", "between hosts", "sources"), rows)
    named = ", ".join(f"`{name}`" for name in models())
    return f"## Machines and models that ship\n\n{_SOURCES}\n\n{table}\n\n{_gpus()}\n\nModels: {named}.\n"


def _gpus() -> str:
    rows = []
    for name, device in devices().items():
        peaks = ", ".join(f"{precision} {flops / 1e12:g}" for precision, flops in device.peak_flops.items())
        rows.append((f"`{name}`", f"{device.memory_bytes_per_second / 1e9:g} GB/s", peaks, device.source))
    return _table(("GPU", "memory", "peaks in TFLOPS", "source"), rows)


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, ("---",) * len(head), *rows])


def main() -> None:
    images = _PAGE.parent.parent / "images"
    files = {_PAGE: page()} | {images / name: text for name, text in rossum.figures(rossum.newest()).items()}
    if sys.argv[1:] == ["--check"]:
        for path, text in files.items():
            if not path.exists() or path.read_text() != text:
                sys.exit(f"{path.name} is not what the lines say\nhint: run `python benchmarks/plan_page.py`")
        return
    for path, text in files.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
