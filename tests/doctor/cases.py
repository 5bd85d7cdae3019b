"""Planted causes as data: the cause, its size and its place; and healthy runs. `plants.py` makes a `fit` of each.

Imports no framework.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.harness.client import BACKENDS


@dataclass(frozen=True)
class Planted:
    """`plant` is a function of `plants.py`; `cause` is the first finding that the doctor must report (None: no finding)."""

    backend: str
    plant: str
    cause: str | None
    devices: int = 2
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        values = "-".join(f"{name}={value}" for name, value in self.settings.items())
        return "-".join(part for part in (self.backend, self.plant, values, f"{self.devices}d") if part)


def _everywhere(plant: str, cause: str | None, *strengths: dict[str, Any], devices: int = 2) -> list[Planted]:
    return [Planted(backend, plant, cause, devices, each) for backend in BACKENDS for each in strengths]


CASES: dict[str, Planted] = {
    case.name: case
    for case in [
        *_everywhere("reading", "slow-reading", {"ms": 40}, {"ms": 80}),
        *_everywhere("decoding", "slow-decoding", {"mib": 4}, {"mib": 8}),
        *_everywhere("python", "slow-python", {"rows": 150}, {"rows": 300}),
        *_everywhere("few_workers", "too-few-workers", {"ms": 50}, {"ms": 90}),
        *_everywhere("held", "gil", {"rows": 150}, {"rows": 300}),
        *_everywhere("callback", "slow-callbacks", {"ms": 8}, {"ms": 30}),
        *_everywhere("validating", "validation", {"times": 2}, {"times": 4}),
        *_everywhere("small_batch", "small-batch", {"rows": 2}, {"rows": 4}, devices=1),
        *_everywhere("exchanging", "all-reduce-bound", {"width": 2048}, {"width": 2560}),
        *_everywhere("local_statistics", "batch-norm", {"rows": 24}, {"rows": 30}),
        *_everywhere("default_rate", "learning-rate", {"rows": 1536}, {"rows": 2048}),
        Planted("jax", "eager", "host-bound", 1, {"run_eagerly": True, "layers": 3}),
        Planted("jax", "eager", "host-bound", 1, {"jit_compile": False, "layers": 6}),
        Planted("tensorflow", "eager", "host-bound", 1, {"run_eagerly": True, "layers": 10}),
        Planted("tensorflow", "eager", "host-bound", 2, {"run_eagerly": True, "layers": 20}),
        Planted("jax", "lengths", "recompilation", 1, {"lengths": 400}),
        Planted("jax", "lengths", "recompilation", 2, {"lengths": 200}),
        Planted("torch", "sleeping_rank", "straggler", 2, {"ms": 20}),
        Planted("torch", "sleeping_rank", "straggler", 2, {"ms": 60}),
        Planted("torch", "uneven", "unequal-shards", 2, {"rows": 3, "ms": 20}),
        Planted("torch", "uneven", "unequal-shards", 2, {"rows": 5, "ms": 30}),
        *(
            Planted(backend, "float_images", "copy-bound", 2, {"size": size})
            for backend in ("tensorflow", "torch")
            for size in (128, 192)
        ),
        *_everywhere("healthy_arrays", None, {}, {"rows": 2048}),
        *_everywhere("healthy_arrays", None, {}, devices=1),
        *_everywhere("healthy_generator", None, {}),
        *_everywhere("healthy_dataset", None, {}),
        *_everywhere("healthy_everything", None, {}),
    ]
}

# What runs at every commit: a few causes, each on one backend.
QUICK = (
    "jax-reading-ms=40-2d",
    "torch-callback-ms=30-2d",
    "tensorflow-few_workers-ms=50-2d",
    "tensorflow-validating-times=4-2d",
    "jax-healthy_arrays-2d",
    "torch-healthy_generator-2d",
)
