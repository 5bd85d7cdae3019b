"""The hardware and software of this machine that parts need, found without importing a framework.

`Machine.lacks` names what is missing."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field

from abreast.device_list import CPU_DEVICES, list_nvidia_devices
from benchmarks.gpu.rows import Row

BACKENDS = ("jax", "tensorflow", "torch")
IMAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "google_crc32c": "google-crc32c",
    "simplejpeg": "simplejpeg",
}
KERAS = {"keras": "keras", "cloudpickle": "cloudpickle"}


@dataclass
class Machine:
    """A machine with `simulated` devices of the CPU, or with real GPUs if that is 0.

    `seen` and `unusable` are known after the part `devices`.
    """

    simulated: int
    num_gpus: int
    modules: frozenset[str]
    seen: dict[str, int] = field(default_factory=dict)  # devices by backend
    unusable: dict[str, str] = field(default_factory=dict)  # why, by backend

    @property
    def kind(self) -> str:
        return "cpu" if self.simulated else "gpu"

    def note(self, row: Row) -> None:
        """Take the result of the part `devices` for a backend."""
        if row.status == "passed":
            self.seen[row.backend] = row.facts["num_devices"]
        else:
            self.unusable[row.backend] = row.why

    def usable(self) -> list[str]:
        return [name for name in BACKENDS if name in self.seen]

    def lacks(self, need: str) -> str | None:
        """What is missing for a need, in words; None if nothing is."""
        if need == "gpu":
            return "a GPU: the devices are simulated" if self.simulated else None if self.num_gpus else "a GPU"
        if need == "keras":
            return self._lacks_modules(KERAS)
        if need == "images":
            return self._lacks_modules(IMAGES)
        return self._lacks_backend(need)

    def _lacks_backend(self, name: str) -> str | None:
        if name not in self.modules:
            return f"{name}: not installed"
        return self.unusable.get(name)

    def _lacks_modules(self, packages: dict[str, str]) -> str | None:
        absent = [package for module, package in packages.items() if module not in self.modules]
        return f"{', '.join(absent)}: not installed" if absent else None


def look(simulated: int) -> Machine:
    """The machine that this process runs on."""
    names = (*BACKENDS, *IMAGES, *KERAS)
    modules = frozenset(name for name in names if importlib.util.find_spec(name) is not None)
    environ = {name: value for name, value in os.environ.items() if name != CPU_DEVICES}
    return Machine(simulated, 0 if simulated else len(list_nvidia_devices(environ)), modules)
