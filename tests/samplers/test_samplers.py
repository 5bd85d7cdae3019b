"""Utilisation, memory and clocks: of a driver that we do not own, and so play, and of this very process."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abreast.device_list import Device
from abreast.samplers.nvml import GpuSample, NvidiaDevices
from abreast.samplers.processor import Processor
from abreast.samplers.sample import DeviceSample
from abreast.samplers.sampler import Sampler

GPUS = [
    Device("gpu:0", "gpu", 0, "H100", uuid="GPU-a"),
    Device("gpu:1", "gpu", 1, "H100", uuid="GPU-b"),
    Device("cpu:0", "cpu", 0, "CPU"),
]


class FakeNvml:
    """`pynvml` as far as we call it. `GPU-b` is a MIG instance, which knows no utilisation and no clocks."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        pass

    def __init__(self, has_driver: bool = True) -> None:
        self.has_driver = has_driver
        self.users = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.has_driver:
            raise self.NVMLError("Driver Not Loaded")
        self.users += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.users -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:  # noqa: N802
        self._refuse(handle)
        return SimpleNamespace(gpu=75, memory=20)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(used=3 << 30)

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        self._refuse(handle)
        return 1980 if kind == self.NVML_CLOCK_SM else 2619

    def _refuse(self, handle: str) -> None:
        if handle == "GPU-b":
            raise self.NVMLError("Not Supported")


def test_nvidia_devices_are_sampled_through_their_driver() -> None:
    nvml = FakeNvml()
    devices = NvidiaDevices(GPUS, nvml)
    first, second = devices.sample()
    assert isinstance(first, GpuSample)
    assert (first.device, first.utilisation, first.memory_bytes) == ("gpu:0", 0.75, 3 << 30)
    assert (first.clock_mhz, first.memory_clock_mhz) == (1980, 2619)
    assert (second.device, second.memory_bytes, second.clock_mhz) == ("gpu:1", 3 << 30, None)
    assert devices.note is None
    devices.close()
    devices.close()
    assert nvml.users == 0


@pytest.mark.parametrize(("has_driver", "said"), [(False, "no NVIDIA driver"), (True, "no NVIDIA device")])
def test_without_an_nvidia_device_nothing_is_sampled_and_a_note_says_so(has_driver: bool, said: str) -> None:
    nvml = FakeNvml(has_driver)
    devices = NvidiaDevices(GPUS[2:], nvml)
    assert devices.sample() == []
    assert devices.note is not None and said in devices.note
    devices.close()
    assert nvml.users == 0


def test_the_utilisation_of_a_busy_process_is_high() -> None:
    processor = Processor()
    assert processor.sample() == []
    started = time.process_time()
    while time.process_time() - started < 0.2:
        pass
    busy = processor.sample()[0]
    time.sleep(0.2)
    idle = processor.sample()[0]
    assert busy.utilisation > idle.utilisation
    assert 0 <= idle.utilisation <= busy.utilisation <= 1
    assert busy.memory_bytes > 1 << 20


def test_workers_count_with_the_process_that_started_them(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/stat").touch()
    for process, children in ((7, "8 9"), (8, ""), (9, "10"), (10, "")):
        folder = tmp_path / str(process)
        (folder / f"task/{process}").mkdir(parents=True)
        (folder / "stat").write_text(f"{process} (a b) c) S {' '.join(['0'] * 10)} 30 10 0")
        (folder / "statm").write_text("100 5 0")
        if process != 10:  # which ends while it is looked at
            (folder / f"task/{process}/children").write_text(children)
    processor = Processor(tmp_path, process=7)
    assert processor.sample() == []
    (sample,) = processor.sample()
    assert processor._before == {7: 40, 8: 40, 9: 40, 10: 40}
    assert sample.utilisation == 0
    assert sample.memory_bytes == 4 * 5 * os.sysconf("SC_PAGE_SIZE")


def test_the_sampler_ends_its_thread_and_closes_its_sources() -> None:
    closed = []

    class Probe:
        note: str | None = "half blind"

        def sample(self) -> list[DeviceSample]:
            return [DeviceSample("cpu", 0, 0.5, 1)]

        def close(self) -> None:
            closed.append(True)

    sampler = Sampler([Probe()], every_seconds=0.01)
    sampler.start()
    deadline = time.monotonic() + 10
    while len(sampler.samples) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sampler_threads() == 1
    sampler.stop()
    sampler.stop()
    assert len(sampler.samples) >= 3
    assert closed == [True]
    assert sampler.notes == ["half blind"]
    assert sampler_threads() == 0


def sampler_threads() -> int:
    return sum(thread.name == "abreast-sampler" for thread in threading.enumerate())
