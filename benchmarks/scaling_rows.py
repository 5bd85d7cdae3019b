"""Rows of published scaling measurements as scenarios. Reads the CSV columns; predicts nothing.

From a series, only the row of one device is used, with the model's public shape and the machine's facts. An invalid row
has a reason instead of a scenario.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from published_model import PublishedScenario

from abreast.errors import AbreastError, DataError
from abreast.plan.machine import devices
from abreast.plan.models import Model, find_model, is_known

Row = Mapping[str, str]
MEASUREMENT_COLUMNS = [
    "machine",
    "gpu",
    "n_nodes",
    "n_gpus",
    "framework",
    "method",
    "model",
    "params_millions",
    "dtype",
    "batch_per_gpu",
    "data",
    "images_per_sec",
    "notes",
    "unit",
    "grad_accum",
    "scaling",
    "baseline_row_id",
    "flag",
    "row_id",
]
MACHINE_COLUMNS = [
    "machine",
    "gpu_key",
    "host_link",
    "gpu_gpu_link",
    "nvlink_GBps_per_gpu_one_way",
    "p2p",
    "network",
    "measured_bandwidth",
]
_TYPICAL_PARAMETERS, _PARAMETERS_PER_TENSOR = 30e6, 200e3
_NVLINK = {"P100-SXM2": 80, "V100": 150, "A100-40": 300, "A100-80": 300, "H100-SXM": 450, "H200": 450, "B200": 900}
_PCIE_BY_DEVICE = {
    "A100": 31.5,
    "A6000": 31.5,
    "30": 31.5,
    "40": 31.5,
    "6000 Ada": 31.5,
    "L4": 31.5,
    "H100": 63,
    "H200": 63,
    "B200": 63,
}
_ADAPTERS = {"dgx1": 4, "dgx-1": 4, "dgx-2": 8, "dgx-a100": 8, "dgx-h100": 8}  # InfiniBand, by NVIDIA's data sheets
# Gb/s, AWS instance types; p2.xlarge is only called "high", which was 1 to 5 Gb/s.
_INSTANCES = {
    "p2.xlarge": 2.5,
    "p2.8xlarge": 10,
    "p2.16xlarge": 25,
    "p3.2xlarge": 10,
    "p3.8xlarge": 10,
    "p3.16xlarge": 25,
}
_NETWORKS = {"aries": 80.0, "slingshot": 200.0, "omni-path": 100.0}  # Gb/s per host, as their makers state
_TYPICAL_STEP_SECONDS = 0.25


@dataclass
class ScalingRow:
    """A row to predict: its facts, or the reason why there is no prediction."""

    row: Row
    baseline_rate: float
    linear: float  # the rate of perfect scaling, as a multiple of the baseline's
    measured: float
    scenario: PublishedScenario | None = None
    reason: str = ""
    assumed: list[str] = field(default_factory=list)

    @property
    def efficiency(self) -> float:
        return self.measured / (self.linear * self.baseline_rate) if self.baseline_rate else math.nan


def read_table(path: str | Path, columns: Sequence[str]) -> list[Row]:
    """The rows of a CSV file. Raises an error if it lacks columns."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise DataError(f"{path} lacks the columns {', '.join(missing)}", f"it needs {', '.join(columns)}")
            return [{name: value or "" for name, value in row.items() if isinstance(name, str)} for row in reader]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "give the path of a CSV file") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not CSV: {error}", "give the path of a CSV file") from None


def read_cases(measurements: str | Path, machines: str | Path) -> list[ScalingRow]:
    """Every row that can be scored: more than one device, not flagged, with a baseline."""
    rows = read_table(measurements, MEASUREMENT_COLUMNS)
    facts = {row["machine"]: row for row in read_table(machines, MACHINE_COLUMNS)}
    by_id = {row["row_id"]: row for row in rows}
    cases = []
    for row in rows:
        baseline = by_id.get(row["baseline_row_id"])
        devices_used, measured = number(row["n_gpus"]), number(row["images_per_sec"])
        if baseline is None or row["flag"] != "ok" or not devices_used or devices_used <= 1 or not measured:
            continue
        rate = number(baseline["images_per_sec"]) or 0.0
        linear = 1.0 if row["unit"].startswith("steps") else devices_used
        case = ScalingRow(row, rate, linear, measured)
        try:
            case.scenario = scenario_of(row, baseline, facts.get(row["machine"], {}), case.assumed)
        except (AbreastError, ValueError, KeyError, ZeroDivisionError, OverflowError) as error:
            case.reason = f"{type(error).__name__}: {error}".splitlines()[0]
        cases.append(case)
    return cases


def scenario_of(row: Row, baseline: Row, machine: Row, assumed: list[str]) -> PublishedScenario:
    """The scenario of a row; `assumed` collects facts that the row does not state."""
    num_devices = int(_required(row, "n_gpus"))
    num_hosts = min(num_devices, max(1, int(number(row["n_nodes"]) or 1)))
    model = _model(row["model"], number(row["params_millions"]), assumed)
    exchange, software = exchange_of(row["method"]), software_of(row["method"], row["framework"])
    half = row["dtype"].lower() not in ("fp32", "float32", "tf32")
    kind, rate = device_link(machine, row["machine"], row["gpu"], assumed)
    network, network_rate = network_of(machine, row["machine"], num_hosts, assumed)
    real = "real" in row["data"].lower()
    rows_per_device = number(row["batch_per_gpu"])
    reads = real and software == "towers" and row["unit"] == "images/s" and rows_per_device
    return PublishedScenario(
        step_seconds=step_seconds(baseline, model, assumed),
        num_devices=num_devices,
        num_hosts=num_hosts,
        num_parameters=model.num_parameters,
        num_tensors=model.num_tensors,
        gradient_bytes=model.num_parameters * (2 if half else 4),
        exchange=exchange,
        software="towers-ps-cpu" if (exchange, software) == ("ps-cpu", "towers") else software,
        device_link=kind,
        device_bytes_per_second=rate * 1e9,
        network=network,
        network_bytes_per_second=network_rate * 1e9,
        memory_bytes_per_second=memory_rate(machine.get("gpu_key", "")),
        batch_share=batch_share(row, baseline),
        accumulation=int(number(row["grad_accum"]) or 1),
        step_accumulation=int(number(baseline["grad_accum"]) or 1),
        shares_board=machine.get("gpu_key", "") in ("K80", "M60"),
        ragged=model.ragged,
        real_data=real,
        host_rows=(rows_per_device or 0.0) * num_devices / num_hosts if reads else 0.0,
        small_rows="cifar" in (row["data"] + row["model"]).lower(),
        slow_half_precision=half
        and software == "towers-nccl"
        and model.batch_norms
        and "xla=off" in baseline["notes"].lower(),
    )


def _model(name: str, millions: float | None, assumed: list[str]) -> Model:
    """A model that ships, or a typical one with so many parameters."""
    if is_known(name):
        return find_model(name)
    assumed.append("model")
    count = millions * 1e6 if millions else _TYPICAL_PARAMETERS
    return Model(name, count, max(8, round(count / _PARAMETERS_PER_TENSOR)))


def step_seconds(baseline: Row, model: Model, assumed: list[str]) -> float:
    """Seconds of one optimizer step of one device, from its rate, its batch, and the number of the rate's units in one row."""
    rate = _required(baseline, "images_per_sec")
    if baseline["unit"].startswith("steps"):
        return 1 / rate
    batch = first_batch(baseline)
    items = model.items_per_row.get(baseline["unit"])
    if batch is None or (items is None and re.match(r"(tokens|words|chars|[\w-]*frames|audio)", baseline["unit"])):
        assumed.append("batch")
        return _TYPICAL_STEP_SECONDS * (number(baseline["grad_accum"]) or 1)
    return batch * (items or 1.0) / rate * (number(baseline["grad_accum"]) or 1)


def first_batch(row: Row) -> float | None:
    """Rows per device; of `10240/5120` the first is for half precision and the second for float32."""
    parts = [number(part) for part in row["batch_per_gpu"].split("/")]
    found = [part for part in parts if part]
    if not found:
        return None
    return found[0] if row["dtype"] != "fp32" or len(found) == 1 else found[1]


def batch_share(row: Row, baseline: Row) -> float:
    here, alone = number(row["batch_per_gpu"]), number(baseline["batch_per_gpu"])
    if row["scaling"].startswith("strong") and here and alone and here < alone:
        return here / alone
    return 1.0


def exchange_of(method: str) -> str:
    """The exchange that a method's name means; a ring if the name does not say."""
    method = method.lower()
    for word, exchange in (
        ("independent", "none"),
        ("ps_cpu", "ps-cpu"),
        ("ps_gpu", "ps-gpu"),
        ("replicated_copy", "ps-gpu"),
        ("byteps", "ps-hosts"),
        ("dist_", "ps-hosts"),
        ("distributed_", "ps-hosts"),
        ("distributed ps", "ps-hosts"),
        ("parameter_server", "ps-gpu"),
    ):
        if word in method:
            return exchange
    return "ring"


def software_of(method: str, framework: str) -> str:
    """The generation of software that a row ran on; fused and overlapped all-reduce if it is not known."""
    method, framework = method.lower(), framework.lower()
    if "make_parallel" in framework or ("multi_gpu_model" in method + framework and "mxnet" not in framework):
        return "slices"
    if "bsp-" in method or "no overlap" in method:
        return "unoverlapped"
    if "wfbp" in method or "byte" in method:
        return "priority"
    if "single-process" in method or "dataparallel" in method.replace(" ", "").replace("distributeddataparallel", ""):
        return "threads"
    if "grpc" in method or "distributed_replicated" in method or "grpc" in framework:
        return "servers"
    if "tf_cnn" in framework or "tensorpack" in framework or "in-graph" in method:
        late = re.search(r"tensorflow (1\.1[0-9]|2|1$)", framework) is not None
        return "towers-nccl" if late else "towers"
    if "ddp" in method or "pytorch" in framework or "jax" in framework:
        return "fused" if "horovod" in method or "multi-process" in method else "ddp"
    return "fused"


def device_link(machine: Row, name: str, gpu: str, assumed: list[str]) -> tuple[str, float]:
    """The kind of link between two devices of a host, and its nominal or measured rate in GB/s."""
    device = machine.get("gpu_key", "")
    text = (
        " ".join(machine.get(column, "") for column in ("gpu_gpu_link", "host_link", "machine")).lower() + name.lower()
    )
    seen = machine.get("measured_bandwidth", "")
    if "H2D" in seen:
        peer = re.search(r"(?:GPU-GPU|P2P unidirectional) ([\d.]+)", seen)
        return "measured", float(peer.group(1)) if peer else number(seen) or 5.0
    nominal = number(machine.get("nvlink_GBps_per_gpu_one_way", ""))
    stated = ("nvlink" in text or "nvswitch" in text or nominal) and "no nvlink" not in text
    bridges = "pcie" in text and ("pair" in text or "bridge" in text)
    if stated and not bridges:
        return "nvlink", float(nominal if nominal and nominal > 10 else _NVLINK.get(device, 50))
    if machine.get("gpu_gpu_link", "not stated").startswith("not stated") and device in _NVLINK:
        assumed.append("device link")
        return "nvlink-assumed", float(_NVLINK[device])
    called = (
        device if device in devices() else gpu.removeprefix("NVIDIA ").removeprefix("GeForce ").removeprefix("RTX ")
    )
    return pcie_link(called.strip(), machine.get("p2p", "").lower(), text, assumed)


def pcie_link(device: str, peer: str, text: str, assumed: list[str]) -> tuple[str, float]:
    """The kind of a PCIe link if peer access is not stated: data center cards have it, GeForce RTX cards do not."""
    rate = next((rate for prefix, rate in _PCIE_BY_DEVICE.items() if device.startswith(prefix)), 15.75)
    rate = 63 if "gen5" in text else rate
    if device in ("K80", "M60"):
        return "pcie-shared-board", 5.0
    if peer.startswith("all"):
        return "pcie-peer", rate
    if peer.startswith(("none", "no ", "no(", "no", "pairs")) and not peer.startswith("not"):
        return "pcie-through-host", rate
    assumed.append("device link")
    if re.match(r"(20|30|40|50)[5-9]0", device):
        return "pcie-through-host", rate
    peers = re.match(r"([AHBLPVT]\d|(RTX|Quadro|6000|8000))", device) is not None
    return "pcie-peer" if peers else "pcie", rate


def network_of(machine: Row, name: str, num_hosts: int, assumed: list[str]) -> tuple[str, float]:
    """The kind of network between hosts and its nominal rate in GB/s."""
    text = machine.get("network", "").lower()
    tcp = "tcp" in text or "without rdma" in text
    kind = "rdma" if re.search(r"infiniband|roce|rdma|efa|\b[efhn]dr\b|mellanox", text) and not tcp else "tcp"
    found = re.search(r"(\d+(?:\.\d+)?) ?gb", text)
    instance = next((rate for each, rate in _INSTANCES.items() if each in name.lower()), None)
    named = next((rate for each, rate in _NETWORKS.items() if each in text), None)
    rate = float(found.group(1)) if found else instance or named
    if rate is None:
        rate = 100.0 if kind == "rdma" else 10.0
        if num_hosts > 1:
            assumed.append("network")
    count = re.search(r"(\d+) ?x ", text)
    adapters = int(count.group(1)) if count else 0
    if not adapters and kind == "rdma":
        adapters = next((many for each, many in _ADAPTERS.items() if name.lower().startswith(each)), 1)
    return kind, rate * max(1, adapters) / 8


def memory_rate(device: str) -> float:
    return devices()[device].memory_bytes_per_second if device in devices() else 500e9


def number(text: str) -> float | None:
    """The first number in a cell, if there is one."""
    found = re.search(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", str(text))
    value = float(found.group()) if found else None
    return value if value is not None and math.isfinite(value) else None


def _required(row: Row, name: str) -> float:
    value = number(row[name])
    if not value:
        raise DataError(f"{name} is {row[name]!r}")
    return value
