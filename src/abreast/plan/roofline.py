"""The step time of a well-known model on a GPU that is not at hand: a roofline, right within a stated factor."""

from __future__ import annotations

from dataclasses import dataclass

from abreast.errors import DataError
from abreast.plan.machine import DeviceSpeed
from abreast.plan.models import Model

# Training reaches this share of the stated peak in published rows of ResNet-50 and BERT: V100 fp32 0.55 and fp16 0.25,
# A100-class tensor cores 0.2 to 0.4. A model may differ from it by `FACTOR`, either way.
_USED_SHARE = {"fp32": 0.5, "tf32": 0.35, "fp16": 0.25}
FACTOR = 2.0

# GPUs before Ampere have tensor cores for fp16 alone, or none. All later ones compute in bf16 and tf32.
_BEFORE_AMPERE = frozenset(
    ("K80", "M60", "GTX1070", "GTX1080Ti", "P100-SXM2", "P100-PCIe", "V100", "2080Ti", "RTX6000", "RTX8000", "T4")
)


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step of one device; the true time is within `factor` of it, either way."""

    seconds: float
    factor: float
    source: str


def roofline(model: Model, device: DeviceSpeed, rows: float, precision: str) -> StepTime:
    if model.flops_per_row is None:
        hint = "measure one device with `abreast bench` and give `--step-time`"
        raise DataError(f"no operation count ships for {model.name}", hint)
    if precision in ("bf16", "tf32") and device.name in _BEFORE_AMPERE:
        hint = f"give --precision {'fp16' if precision == 'bf16' else 'fp32'}, or measure the step and give --step-time"
        raise DataError(f"{device.name} does not compute in {precision} (GPUs since Ampere do)", hint)
    kind = "fp16" if precision in ("fp16", "bf16") else precision
    peak = device.peak_flops.get(kind) or device.peak_flops.get("fp32")
    if not peak:
        raise DataError(f"no peak is known for {device.name} in {precision}", "give `--step-time`")
    used = _USED_SHARE[kind if kind in device.peak_flops else "fp32"]
    compute = (
        3 * 2 * model.flops_per_row * rows / (peak * used)
    )  # a multiplication and an addition; backward is twice forward
    update = 16 * model.num_parameters / device.memory_bytes_per_second
    return StepTime(
        compute + update, FACTOR, f"roofline of {device.name} in {precision}, right within a factor {FACTOR:g}"
    )
