"""Make `docs/reference/benchmarks.md` from the lines under `results/`; the newest line of each case counts.

    python benchmarks/table.py [--check]

`--check` writes nothing, and fails if the page does not match the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lines

from abreast.bench import table as bench_table
from abreast.bench.series import comparisons

_PAGE = Path(__file__).parent.parent / "docs" / "reference" / "benchmarks.md"
_HEAD = """# Benchmarks

Made by `python benchmarks/table.py` from the lines under `benchmarks/results/`; do not edit. Every line there has the unit, the
sample count, median and quartiles, machine, versions, commit and command. Warm-up is dropped (each line says how much), and a
clock is read only after waiting for the device.
"""
Line = dict[str, Any]


def page() -> str:
    parts = [
        _HEAD,
        _gpu(),
        _step_overhead(),
        _two_cores(),
        _bench(),
        _feeding(),
        _timeline_cost(),
        _startup(),
        _process_sources(),
        _process_calls(),
        _soak(),
        _images(),
        _image_quality(),
        _packing(),
        _checkpoint_kills(),
        _checkpoint_cost(),
        _checkpoint_steps(),
        _plan_links(),
        _host_overhead(),
        _hosts(),
    ]
    return "\n".join(part for part in parts if part)


def _step_overhead() -> str:
    found = _newest("step_overhead")
    rows = []
    for line in found.values():
        case = line["case"]
        if case["side"] != "native":
            continue
        abreast, keras = (found.get(_key(case | {"side": side})) for side in ("abreast", "keras"))
        name = (case["backend"], case["model"], _place(case))
        rows.append((*name, _milliseconds(line), _ratio(abreast), _ratio(keras), line["commit"]))
    return _section(
        "Time of a step",
        "The time of a step of `fit` over that of a hand-written native loop on the same devices, in the same run, in turns "
        "(`step_overhead.py`). The last ratio is Keras's own way to several devices.",
        ("backend", "model", "devices", "native step", "abreast / native", "Keras / native", "commit"),
        rows,
        found,
    )


def _gpu() -> str:
    tried = [
        line for line in lines.read("gpu") if line["status"] in ("passed", "failed") and line["case"]["kind"] == "gpu"
    ]
    found = {_key(line["case"]): line for line in tried}
    order = sorted(found.values(), key=lambda line: (line["case"]["part"], line["case"]["backend"]))
    rows = []
    for line in order:
        case = line["case"]
        figure = line["figure"] + "".join(f"; not tried: {each}" for each in line["absent"])
        rows.append((case["part"], case["backend"], case["devices"], line["status"], figure, line["commit"]))
    return _section(
        "On a GPU",
        "What `make gpu` tried and found ([on a GPU](../../CONTRIBUTING.md#on-a-gpu)). A part that is not here has not run on a "
        "GPU: TensorFlow, more than one GPU, and decoding by NVIDIA DALI.",
        ("part", "backend", "GPUs", "result", "figure", "commit"),
        rows,
        found,
    )


def _two_cores() -> str:
    found = _newest("two_cores")
    rows = []
    for line in found.values():
        case = line["case"]
        if case["side"] != "abreast" or case["devices"] != 2:
            continue
        native = found[_key(case | {"side": "native"})]
        one = found[_key(case | {"devices": 1})]
        both = line["efficiency"], native["efficiency"]
        name = (case["backend"], case["model"], line["rows_per_device"], _milliseconds(one))
        rows.append((*name, f"{both[1]:.3f}", f"{both[0]:.3f}", f"{both[0] / both[1]:.3f}", line["commit"]))
    return _section(
        "Scaling on two cores",
        "One device on one core against two devices on one core each, with the same rows per device and single-threaded "
        "kernels (`two_cores.py`). The columns *native* and *abreast* show efficiency: the time of a step on one device over "
        "that on two.",
        ("backend", "model", "rows per device", "step on one", "native", "abreast", "abreast / native", "commit"),
        rows,
        found,
    )


def _bench() -> str:
    found = _newest("bench")
    rows = [(each.title, *row) for each in comparisons(list(found.values())) for row in bench_table.rows(each)]
    return _section(
        "A report of abreast bench",
        "The report in [measuring how training scales](../guides/benchmarking.md), on devices of one core each "
        "(`examples/bench_report.py`). *Speed-up* is rows per second over those of abreast on one device.",
        ("case", *bench_table.HEADS),
        rows,
        found,
    )


def _feeding() -> str:
    found = _newest("feeding")
    rates = sorted({line["case"]["rate"] for line in found.values()})
    places: dict[tuple[str, str, int], dict[tuple[str, float], Line]] = {}
    for line in found.values():
        case = line["case"]
        cells = places.setdefault((case["backend"], case["model"], case["run_of_devices"]), {})
        cells[case["side"], case["rate"]] = line
    rows = []
    for (backend, model, devices), cells in places.items():
        mine = cells["abreast", rates[0]]
        both = (_both(cells, rate) for rate in rates)
        rows.append((backend, model, devices, f"{1000 * mine['step_seconds']:.1f} ms", *both, mine["commit"]))
    return _section(
        "Feeding from a slow source",
        "A source sleeps a share of a step for each batch, such as 0.5. The figures are seconds per step over those of the "
        "slower of the two, source and step (`feeding.py`): for abreast, and in brackets for plain Keras on one device in the "
        "same run.",
        ("backend", "model", "devices", "step", *(f"source {rate:g}" for rate in rates), "commit"),
        rows,
        found,
    )


def _both(cells: dict[tuple[str, float], Line], rate: float) -> str:
    values = (cells.get((side, rate)) for side in ("abreast", "keras"))
    mine, keras = ("" if line is None else f"{line['median']:.2f}" for line in values)
    return f"{mine} ({keras})"


def _timeline_cost() -> str:
    found = _newest("timeline_cost")
    rows = []
    for line in found.values():
        case = line["case"]
        if case["side"] != "with":
            continue
        without = found[_key(case | {"side": "without"})]
        thread = f"{1e6 * line['thread_seconds']:.0f} us"
        ratios = f"{line['ratio']:.4f}", f"{line.get('control', 1):.4f}", thread, f"{line['ratio_with_thread']:.4f}"
        threads = case.get("compute_threads") or "all cores"
        rows.append((case["backend"], _place(case), threads, _milliseconds(without), *ratios, line["commit"]))
    return _section(
        "Cost of a timeline",
        "The time of steps of one `fit` with `abreast.Timeline` over those without, in turns of ten (`timeline_cost.py`). The "
        "control is the same ratio between turns without it. *Its thread* is the CPU time of the timeline's own thread per "
        "step; *with its thread* is the ratio if that time is counted in full, as if no core were idle. Steps that compute in "
        "one thread leave one of two cores to Python, as beside a GPU.",
        (
            "backend",
            "devices",
            "threads",
            "step without",
            "with / without",
            "control",
            "its thread",
            "with its thread",
            "commit",
        ),
        rows,
        found,
    )


def _startup() -> str:
    found = _newest("startup")
    rows = []
    for line in found.values():
        case = line["case"]
        place = f"{case['processes']} processes" if "processes" in case else case.get("devices", "")
        name = (case["what"], case.get("backend", ""), place, case.get("side", ""))
        spread = " to ".join(f"{value:.3g}" for value in line["quartiles"])
        rows.append((*name, f"{line['median']:.3g} s", f"{spread} s", line["commit"]))
    return _section(
        "Start",
        "From the first import to the end of the first step, in a fresh process; for several processes, from their start to the "
        "end of the last one's first step (`startup.py`).",
        ("what", "backend", "devices", "side", "median", "quartiles", "commit"),
        rows,
        found,
    )


def _process_sources() -> str:
    found = _newest("process_sources")
    rows = []
    for line in found.values():
        case = line["case"]
        read = ", ".join(f"{number:.0f}" for number in line["rows_read_by_rank"])
        name = (case["source"], case["processes"], case["batch_size"], case["reads"], f"{read} of {case['rows']}")
        rows.append((*name, f"{line['median']:.2f} s", line["commit"]))
    return _section(
        "What each process reads",
        "Rows that each process of a launcher reads in an epoch, and the seconds of the epoch, on JAX; all processes share the "
        "cores of one host (`process_sources.py`).",
        ("source", "processes", "batch", "reads", "rows read by each", "epoch", "commit"),
        rows,
        found,
    )


def _process_calls() -> str:
    found = _newest("process_calls")
    rows = [
        (
            line["case"]["backend"],
            line["case"]["variables"],
            _milliseconds(line),
            f"{1000 * line['call_seconds']:.0f} ms",
            line["commit"],
        )
        for line in found.values()
    ]
    return _section(
        "Beginning of a call",
        "The time in which two processes agree on 146 variables of 300 MB, and the `evaluate` of one batch that it is a part of "
        '(`process_calls.py`). "read": somebody has set all variables.',
        ("backend", "variables", "agree", "call", "commit"),
        rows,
        found,
    )


def _soak() -> str:
    found = _newest("soak")
    rows = []
    for line in found.values():
        case, grows, most = line["case"], line["growth_per_1000_steps"], line["most"]
        counts = (f"{most[name]} ({grows[name]:+.2f})" for name in ("threads", "descriptors", "processes"))
        memory = f"{most['memory_bytes'] / 2**20:.0f} MiB ({grows['memory_bytes'] / 2**10:+.0f} KiB)"
        rows.append((case["backend"], case["source"], f"{case['steps']:,}", memory, *counts, line["commit"]))
    return _section(
        "Many steps",
        "Peak values of a process and its workers, and in brackets their growth per 1,000 steps in the second half "
        "(`soak.py`): a tiny model on two simulated devices.",
        ("backend", "source", "steps", "memory", "threads", "descriptors", "processes", "commit"),
        rows,
        found,
    )


def _images() -> str:
    found = _newest("images")
    rows = []
    for line in found.values():
        case = line["case"]
        low, high = (f"{value:,.0f}" for value in line["quartiles"])
        rate = f"{line['median']:,.0f} ({low} to {high})"
        limit = found.get(_key(case | {"reader": "libjpeg-turbo, full decode alone"}))
        ratio = "" if limit is None else f"{line['median'] / limit['median']:.2f}"
        memory = f"{line['peak_bytes'] / 2**20:,.0f} MiB"
        name = (case["images"], case["cores"], case["reader"])
        rows.append((*name, rate, ratio, f"{line['cpu_ms_per_image']:.2f} ms", memory, line["commit"]))
    return _section(
        "Reading images",
        "Batches of 64 `uint8` images of 224 pixels from a warm page cache, in processes with the given number of cores "
        "(`images.py`). The limit is the decoder alone, for whole images that are in memory. DALI runs its operators for the "
        "CPU. FFCV is missing: it has no wheel, and its build needs the development files of OpenCV and libturbojpeg (`Could "
        "not find required package: opencv`).",
        ("images", "cores", "reader", "images/s", "/ limit", "CPU per image", "peak memory", "commit"),
        rows,
        found,
    )


def _image_quality() -> str:
    found = _newest("image_quality")
    rows = []
    for line in found.values():
        case = line["case"]
        low, high = line["quartiles"]
        numbers = (f"{line['mean']:.2f}", f"{low:.2f} to {high:.2f}", line["max"], f"{line['far_share']:.2%}")
        rows.append((case["images"], f"{case['view']} to {case['size']}", case["way"], *numbers, line["commit"]))
    return _section(
        "Quality of images",
        "Differences from Pillow's bilinear resize of the whole decoded image, in steps of 255 (`image_quality.py`): the mean "
        "over all images, the quartiles of the means of single images, the largest difference of any pixel, and the share of "
        "values that differ by more than 8.",
        ("images", "shown", "way", "mean", "quartiles", "max", "more than 8", "commit"),
        rows,
        found,
    )


def _plan_links() -> str:
    found = _newest("plan_links")
    rows = []
    for line in found.values():
        case = line["case"]
        link = f"{8e-6 * line['link_bytes_per_second']:,.0f} Mb/s, {1000 * line['link_latency_seconds']:.2f} ms"
        one, predicted = (f"{1000 * line[name]:.0f} ms" for name in ("one_device_seconds", "predicted_seconds"))
        low, high = (f"{1000 * value:.0f}" for value in line["quartiles"])
        measured = f"{1000 * line['median']:.0f} ms ({low} to {high})"
        name = (case["model"], case["link"], link, case["accumulation"])
        rows.append((*name, one, predicted, measured, f"{100 * line['error']:+.1f} %", line["commit"]))
    return _section(
        "Planned and measured on slow links",
        "The time of an update of several steps, on two emulated hosts of one core each. `abreast plan` predicts it from the "
        "step on one device and from one TCP connection over the link; abreast is measured on PyTorch (`plan_links.py`; [what "
        "is given and what is predicted](../guides/planning.md#predicted-and-measured)).",
        ("model", "link", "connection", "steps", "one step alone", "predicted", "measured", "error", "commit"),
        rows,
        found,
    )


def _host_overhead() -> str:
    found = _newest("host_overhead")
    rows = []
    for line in found.values():
        case = line["case"]
        if case["side"] == "native":
            ours = found[_key(case | {"side": "abreast"})]
            name = (case["backend"], case["model"], case["link"], f"{1000 * line['one_device_seconds']:.1f} ms")
            figures = (_milliseconds(line), _milliseconds(ours), _ratio(line), f"{100 * line['error']:+.1f} %")
            rows.append((*name, *figures, line["commit"]))
    return _section(
        "Time of a step between hosts",
        "The time of a step of `fit` over that of a hand-written loop on the same two emulated hosts of one core each, in the "
        "same run, in turns, and the error of what `abreast plan` predicts for abreast (`host_overhead.py`).",
        ("backend", "model", "link", "alone", "native", "abreast", "abreast / native", "error of the plan", "commit"),
        rows,
        found,
    )


def _hosts() -> str:
    """The cells of `tests/launched/matrix.py`, which have no measurement of their own."""
    path = lines.RESULTS / "hosts.jsonl"
    if not path.exists():
        return ""
    told = [json.loads(line) for line in path.read_text().splitlines()]
    runs, cells = ([one for one in told if one["kind"] == kind] for kind in ("run", "cell"))
    verdicts = ("equal", "refused", "failed", "different")
    rows = []
    for backend, shape in dict.fromkeys((cell["backend"], cell["shape"]) for cell in cells):
        of_shape = [cell for cell in cells if (cell["backend"], cell["shape"]) == (backend, shape)]
        largest = max((cell["difference"] for cell in of_shape if cell["verdict"] == "equal"), default=0.0)
        counts = [sum(cell["verdict"] == verdict for cell in of_shape) for verdict in verdicts]
        rows.append((backend, shape, *counts, f"{largest:.1e}"))
    table = [("backend", "hosts x devices", *verdicts, "largest difference"), ["---"] * 7, *rows]
    body = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in table)
    commands = ", ".join(f"`{run['command']}` at {run['commit']}" for run in runs)
    return (
        "## Hosts\n\nSettings of the contract in float64, on emulated hosts with one process per host or per device, against "
        f"plain Keras in one process. Refused cells are refused by name before the first step.\n\n{body}\n\nBy {commands}.\n"
    )


def _checkpoint_kills() -> str:
    names = {
        "abreast": "abreast",
        "keras": "BackupAndRestore",
        "keras-double": "BackupAndRestore, double_checkpoint=True",
        "orbax": "Orbax, CheckpointManager, max_to_keep=1",
    }
    found = _newest("checkpoint_kills")
    rows = []
    for line in found.values():
        loaded = line["loaded"]
        good = loaded.get("old", 0) + loaded.get("new", 0)
        others = ", ".join(f"{count} {what}" for what, count in loaded.items() if what not in ("old", "new"))
        name = f"{names[line['case']['writer']]} {line['writer_version']}"
        rows.append((name, str(line["calls"]), f"{good} of {line['kills']}", others or "-", line["commit"]))
    return _section(
        "Kills while a checkpoint is saved",
        "A process is killed before one of its calls on files while it saves the second checkpoint (`checkpoint_kills.py`); each "
        "kill was seen to fire. Then its reader loads what is there: the old or the new checkpoint, whole, or something else. "
        "Where a save makes more than 100 such calls, 100 of them are taken, evenly spread.",
        ("writer", "calls", "old or new", "otherwise", "commit"),
        rows,
        found,
    )


def _checkpoint_cost() -> str:
    found = {key: line for key, line in _newest("checkpoint_cost").items() if "millions" in line["case"]}
    rows = []
    for line in found.values():
        case = line["case"]
        if case["way"] != "abreast":
            continue
        waits = [found[_key(case | {"way": way})] for way in ("abreast", "BackupAndRestore", "model.save")]
        others = [f"{found[_key(case | {'way': way})]['median']:.2f} s" for way in ("write", "restore")]
        name = case["backend"], f"{case['millions']:g}", f"{line['bytes'] / 1e6:,.0f} MB"
        share = f"{line['median'] / 60:.2%}"
        first = f"{line['first_seconds']:.2f} s"
        rows.append((*name, *map(_seconds, waits), share, first, *others, line["load"], line["commit"]))
    return _section(
        "What a checkpoint costs",
        "Dense layers of so many million parameters with Adam, on one device (`checkpoint_cost.py`). The training waits so many "
        "seconds for a checkpoint of abreast, for `BackupAndRestore` and for `model.save`, in one process; *of a minute* is the "
        "share of abreast. The first checkpoint of a `fit` takes longer, as its memory is new. *Write* is the time of the thread "
        "that writes beside the training. *Load*: of the machine before.",
        (
            *("backend", "millions", "size", "abreast", "BackupAndRestore", "model.save"),
            *("of a minute", "first", "write", "restore", "load", "commit"),
        ),
        rows,
        found,
    )


def _checkpoint_steps() -> str:
    found = {key: line for key, line in _newest("checkpoint_cost").items() if "millions" not in line["case"]}
    rows = []
    for line in found.values():
        case = line["case"]
        if case["way"] != "steps with":
            continue
        without = found[_key(case | {"way": "steps without"})]
        step = _milliseconds(without)
        cpu = f"{1e6 * line['added_cpu']:.0f} us ({line['added_cpu'] / without['median']:.1%})"
        numbers = step, line["ratio"], line["control"], cpu, line["load"]
        rows.append((case["backend"], case["devices"], *numbers, line["commit"]))
    return _section(
        "Between two checkpoints",
        "The time of a step of a small MLP in a `fit` with a checkpoint that is never due over that without, in turns "
        "(`checkpoint_cost.py`). The control is the same ratio between turns without. *CPU*: what the training thread takes more "
        "of it, per step and as a share of the step.",
        ("backend", "devices", "step without", "with / without", "control", "CPU", "load", "commit"),
        rows,
        found,
    )


def _packing() -> str:
    found = _newest("packing")
    rows = []
    for line in found.values():
        case = line["case"]
        low, high = (f"{value:,.0f}" for value in line["quartiles"])
        numbers = f"{line['median']:,.0f} ({low} to {high})", f"{line['efficiency']:.3f}"
        cpu = f"{line['cpu_ms_per_image']:.2f} ms"
        rows.append((case["images"], case["storage"], case["threads"], *numbers, cpu, line["commit"]))
    return _section(
        "Packing images",
        "`abreast.records.pack` reads a folder that is in memory, and writes to a disk until all data is on it, with as many "
        "threads as cores (`packing.py`). Efficiency is the rate over the number of threads times the rate of one thread on "
        "one core, the median of rounds in turns.",
        ("images", "storage", "threads", "images/s", "efficiency", "CPU per image", "commit"),
        rows,
        found,
    )


def _place(case: dict[str, Any]) -> str:
    return f"{case['devices']} ({'GPU' if case['gpu'] else 'CPU, simulated'})"


def _newest(benchmark: str) -> dict[str, Line]:
    return {_key(line["case"]): line for line in lines.read(benchmark)}


def _key(case: dict[str, Any]) -> str:
    return json.dumps(case, sort_keys=True)


def _seconds(line: Line) -> str:
    low, high = line["quartiles"]
    return f"{line['median']:.2f} s ({low:.2f} to {high:.2f})"


def _milliseconds(line: Line) -> str:
    low, high = (1000 * value for value in line["quartiles"])
    return f"{1000 * line['median']:.2f} ms ({low:.2f} to {high:.2f})"


def _ratio(line: Line | None) -> str:
    return "" if line is None else f"{line['ratio_to_native']:.2f}"


def _section(
    title: str, text: str, head: Sequence[str], rows: Sequence[Sequence[object]], found: dict[str, Line]
) -> str:
    if not rows:
        return ""
    table = [head, ["---"] * len(head), *rows]
    body = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in table)
    return f"## {title}\n\n{text}\n\n{body}\n\n{_machines(found.values())}\n"


def _machines(found: Any) -> str:
    """The machines and versions of a table's lines."""
    describe: Callable[[Line], str] = lambda line: _machine(line["machine"], line["versions"])  # noqa: E731
    return "Measured on: " + "; ".join(sorted({describe(line) for line in found})) + "."


def _machine(machine: dict[str, Any], versions: dict[str, str]) -> str:
    gpus = f", {', '.join(machine['gpus'])}" if machine.get("gpus") else ""
    software = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "abreast")
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB{gpus} ({software})"


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        if not _PAGE.exists() or _PAGE.read_text() != page():
            sys.exit(f"{_PAGE.name} does not match the lines\nhint: run `python benchmarks/table.py`")
        return
    _PAGE.parent.mkdir(parents=True, exist_ok=True)
    _PAGE.write_text(page())


if __name__ == "__main__":
    main()
