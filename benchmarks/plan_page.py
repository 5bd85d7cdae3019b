"""Make `docs/reference/plan.md` and its figures: the model's formulas, its constants, and their accuracy.

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

Made by `python benchmarks/plan_page.py`; do not edit. [Planning](../guides/planning.md) shows how to use the model.

## Formulas

The time of a step of `n` devices on `m` hosts is

    step = compute x (1 + straggling) + exposed + launches + update

- **compute** is the step of one device without its update, once per accumulated step. It is measured, given, or a roofline.
  A step that accumulates also passes over 20 bytes per parameter at the memory's bandwidth: it adds its gradient to the sum
  (two floats read, one written), and Keras passes over its accumulators (one read, one written).
- **straggling** is `straggle.*` x log2(n), and `straggle.hosts` x log2(m): the slowest replica decides.
- **exposed** is the time that the exchange of gradients adds. For an exchange of `C` seconds beside a window of `W` seconds (the
  backward pass, two thirds of a step) it is `C - (1 - e) min(C, W)`, where `e` is
  `exposed.*`. The simulation finds it bucket by bucket; PyTorch's first bucket is full at 1 MiB.
- NCCL's kernels hold their part of a GPU while they wait for a network. gloo's threads sleep while they wait, and take the cores
  from the computation while they send, receive and add. Within a host there is no network to wait for, so for gloo `e` is
  `K / C`. `K` is the time of the exchange at the rate at which processes of one host sum a buffer: the rate of the link between
  devices, of kind `all-reduce`, as `abreast machine` measures it. gloo sends to another host no faster than that. Without overlap
  (`--no-overlap`) it waits for the network before it adds, so both times count: measured on JAX. Reading gradients
  and writing them into buckets adds two passes over them at the memory's bandwidth; for GPUs, `exposed.*` includes it.
- **launches** is `launch.*` per gradient tensor and doubling of the devices. **update** is `passes.update` passes over 16 bytes
  per parameter at the memory's bandwidth.
- The *bottleneck* is the longest part of a step. Parts have the names of a timeline where it has such a part: *computing*,
  *all-reduce* (`exposed`), *copying to devices* and *waiting for input*; the others are *stragglers*, *launches* and *update*.
- A ring sends `2 (n - 1) / n` of the gradients' bytes over the slowest of its links, plus `2 (n - 1)` latencies. A tree
  sends twice the bytes, plus `2 log2 n` latencies. A hierarchy is a ring in each host and one between hosts.
- gloo sends 4 MiB between two hosts before it waits for an answer: a byte takes its time on the wire, and that part of a
  round trip.
- A rate is its nominal value times `usable.*`; the measured rate of a network is used in full. TCP carries at most
  `rate.tcp_most`.

An 80 % interval reaches `{floor} + {per_loss} x loss` to both sides as a logarithm, where `loss` is the logarithm of the
predicted step over that of perfect scaling. It is {assumed} wider if facts had to be assumed, and wider by the roofline's
factor if the step time is a roofline. No prediction is made if its ends are more than six times apart.

The simulation has the compute stream of the slowest device, and serves each kind of link in the order in which buckets become
ready. Its tests compare it with the formulas on random cases: they agree to 1e-9 where the formulas hold. `abreast plan` takes
the part of the exchange that cannot be hidden from the simulation, and the share `e` of the rest. For rings and hierarchies the
result is within 10 % of the formulas above, to which the accuracy below belongs.

Many published rows come from systems that abreast does not train with: parameter servers, towers of TensorFlow 1, BytePS, sliced
batches of Keras 2. Their formulas are in `benchmarks/published_model.py`, and some constants below are only for them.

## What it does not model

Ports and cables are not simulated one by one: links of one kind are one resource. Slowdowns by other jobs' collectives are not
modelled. The memory that a batch needs is not checked. Encoding of compressed gradients is a number of passes over memory,
assumed and not measured. Effects of compression and of fewer exchanges on convergence are not predicted.
"""

_SOURCES = """Rates are one way, and nominal except for the kinds `measured` and `all-reduce`. The source of each number is a
document of its maker, or a measurement. A second source is named if we found one; otherwise the number is marked
*not re-checked*."""


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
measured rate. The constants and intervals for each machine were fitted without it; the null model is perfect
linear scaling. The form of the model, and the prior values of its constants, were chosen with knowledge of all these rows: expect
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

Rossum measured Keras on GPUs in 2017, and found the problem that abreast solves: more GPUs made training slower. Their rates
are cited (github.com/rossumai/keras-multi-gpu). **Everything else here is predicted**, for each machine with constants that
were fitted without it. Keras 2 with TensorFlow 1.3 cuts batches of 32 images over the GPUs (avolkov1's `make_parallel`) and
keeps the parameters in host memory or on one GPU. 7gforce has six GTX 1070 on risers of one PCIe lane, az-2x-m60 has two M60 on
PCIe x8.

{keras}

The same machines with abreast, predicted: a process per GPU, batches staged on the GPUs ahead of the step, a ring all-reduce of
buckets during the backward pass. The step of one GPU is assumed to be as long as Rossum's, which waited for its input: the time
that staging saves there is not counted. With 32 images in all, each of six GPUs has five or six, and the exchange over one lane
takes longer than computing them. With 32 images for each GPU, the exchange overlaps in part with the computation.

{ours}

![ResNet-50 on 7gforce: Keras cited and predicted, abreast predicted](../images/rossum-resnet50.svg)

![Inception v3 on 7gforce: Keras cited and predicted, abreast predicted](../images/rossum-inception3.svg)

Full lines and filled marks are cited. Dashes, hollow marks and their bands are predicted. *In host memory* and *on a GPU* is
where Keras keeps the parameters. The widths of the intervals are those that ship, to which these rows contributed. Made by

    {found[0]["command"]}

at {found[0]["commit"]}."""
    return f"{text}\n"


def _constants(content: dict[str, Any]) -> str:
    rows = [
        (f"`{name}`", f"{entry['value']:g}", f"{entry['expected']:g}", entry["unit"], entry["meaning"])
        for name, entry in content["constants"].items()
    ]
    text = f"""## Constants

Fitted on {content["fitted_on"]} by `python benchmarks/plan_fit.py`. A constant that the rows do not determine keeps its
prior value, in the column *expected*."""
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
                sys.exit(f"{path.name} does not match the lines\nhint: run `python benchmarks/plan_page.py`")
        return
    for path, text in files.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
