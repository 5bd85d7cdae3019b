"""`decoder`: errors without a GPU, the choice of "auto" and its message, and that a saved state keeps the choice."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError, DeviceError
from abreast.installing import install_command
from abreast.launchers import World
from abreast.records import pack
from abreast.records.decoding import gpu_choice, gpu_pipeline
from abreast.records.loading import loader, rate
from abreast.records.loading.assembly import Started
from abreast.records.loading.loader import Loader
from abreast.records.packing.prepare import Storage
from tests.records.dali import OpenCvPipeline, let_there_be_a_gpu
from tests.records.pieces import assert_same, copied, photo


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pack([(photo(40, 50, seed=i), i) for i in range(10)], tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_choice, "_printed", set())


def after_a_batch(rates: list[float]) -> Any:
    """A replacement of `images_per_second`: it makes one batch, and returns the next of these rates."""

    def measure(start: Any, num_ahead: int) -> float:
        start(0).wait()
        return rates.pop(0)

    return measure


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Images per second that are measured, in turns."""
    rates: list[float] = []
    monkeypatch.setattr(loader, "images_per_second", lambda start, num_ahead: rates.pop(0))
    return rates


def open_loader(folder: Path, decoder: str = "auto", **settings: Any) -> Loader:
    return Loader(folder, **{"batch_size": 4, "size": 32, "seed": 3, "decoder": decoder, **settings})


def no_gpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gpu_choice, "list_nvidia_devices", lambda: ())


def no_dali(patch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(patch)
    patch.setattr(gpu_choice, "is_installed", lambda: False)


def test_without_a_gpu_decoding_on_one_is_refused_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpu(monkeypatch)
    with pytest.raises(DeviceError) as caught:
        open_loader(folder, "gpu")
    assert str(caught.value) == (
        'there is no NVIDIA GPU to decode on\nhint: decoder="cpu" needs no GPU, and "auto" uses a GPU only where one can decode'
    )


def test_a_missing_dali_is_an_error_that_names_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_dali(monkeypatch)
    with pytest.raises(DataError) as caught:
        open_loader(folder, "gpu")
    assert str(caught.value) == (
        f"decoding on a GPU needs NVIDIA DALI, which is not installed\nhint: {install_command('dali')}"
    )


def test_simulated_devices_are_not_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABREAST_CPU_DEVICES", "4")
    with pytest.raises(DeviceError, match="no NVIDIA GPU"):
        open_loader(folder, "gpu")


@pytest.mark.parametrize(("storage", "found"), [("raw", "npy"), ("png", "png")])
def test_a_data_set_without_jpegs_is_refused_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: Storage, found: str
) -> None:
    let_there_be_a_gpu(monkeypatch)
    pack([photo(8, 8)], tmp_path / "out", storage=storage)
    with pytest.raises(DataError, match=f"out holds {found}, and no JPEG that a GPU can decode to final pixels"):
        open_loader(tmp_path / "out", "gpu", targets=None)


@pytest.mark.parametrize("wrong", ["tpu", "GPU", None, 1])
def test_other_words_are_refused(folder: Path, wrong: Any) -> None:
    with pytest.raises(DataError, match='hint: give "cpu", "gpu", or "auto"'):
        open_loader(folder, wrong)


def test_processes_are_not_for_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    with pytest.raises(DataError, match='num_workers=2 with decoder="gpu"'):
        open_loader(folder, "gpu", num_workers=2)


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        (no_gpu, 'there is no NVIDIA GPU to decode on\nhint: decoder="cpu" needs no GPU'),
        (no_dali, f"decoding on a GPU needs NVIDIA DALI, which is not installed\nhint: {install_command('dali')}"),
    ],
)
def test_auto_takes_the_cpu_and_prints_the_reason_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: Any, why: str
) -> None:
    expected = copied(open_loader(folder, "cpu"))
    missing(monkeypatch)
    for _ in range(2):
        batches = open_loader(folder)
        assert batches.state()["decoder"] == "auto"
        assert_same(copied(batches), expected)
        assert batches.state()["decoder"] == "cpu"
    err = capsys.readouterr().err
    assert err.startswith(f'abreast: decoder="auto" takes the CPU: {why}') and err.count("abreast: ") == 1


@pytest.mark.parametrize(
    ("cpu", "on_gpu", "chosen"), [(1000.0, 1001.0, "gpu"), (1001.0, 1000.0, "cpu"), (1000.0, 1000.0, "cpu")]
)
def test_auto_takes_the_faster_decoder_and_prints_a_line(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rates: list[float],
    cpu: float,
    on_gpu: float,
    chosen: str,
) -> None:
    let_there_be_a_gpu(monkeypatch)
    rates += [cpu, on_gpu]
    batches = open_loader(folder)
    for _ in range(2):  # and measures but once
        list(batches)
        assert batches.state()["decoder"] == chosen
    text = f"{on_gpu:,.0f} images/s on the GPU, {cpu:,.0f} on the CPU"
    assert capsys.readouterr().err == f"abreast: {folder} is decoded by the {chosen.upper()}: {text}\n"


def test_a_batch_by_its_number_decides_too(folder: Path, monkeypatch: pytest.MonkeyPatch, rates: list[float]) -> None:
    let_there_be_a_gpu(monkeypatch)
    rates += [1.0, 2.0]
    batches = open_loader(folder)
    by_number = [batches[i] for i in range(3)]
    assert batches.state()["decoder"] == "gpu"
    assert_same(copied(batches), by_number)


def test_both_are_really_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measuring changes nothing: no batch is missing after it."""
    let_there_be_a_gpu(monkeypatch)
    monkeypatch.setattr(rate, "_MEASURED_SECONDS", 0.05)
    expected = copied(open_loader(folder, "cpu"))
    found = copied(open_loader(folder, num_workers=2))
    assert [labels.tolist() for _, labels in found] == [labels.tolist() for _, labels in expected]
    assert "images/s on the GPU" in capsys.readouterr().err


@pytest.mark.parametrize("chosen", ["cpu", "gpu"])
def test_the_slower_decoder_frees_its_resources(folder: Path, monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    let_there_be_a_gpu(monkeypatch)
    monkeypatch.setattr(loader, "images_per_second", after_a_batch([1.0, 2.0] if chosen == "gpu" else [2.0, 1.0]))
    gc.collect()
    with open_loader(folder, num_workers=1) as batches:
        list(batches)
        assert bool(OpenCvPipeline.alive) == (chosen == "gpu") == (batches._decoding._processes is None)


def test_auto_takes_the_cpu_if_the_gpu_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    let_there_be_a_gpu(monkeypatch)
    monkeypatch.setattr(rate, "_MEASURED_SECONDS", 0.05)

    def fail(*_: Any) -> None:
        raise DeviceError("NVIDIA DALI cannot use gpu:0: its driver is old")

    monkeypatch.setattr(gpu_pipeline, "Pipeline", fail)
    batches = open_loader(folder)
    assert len(list(batches)) == 3 and batches.state()["decoder"] == "cpu"
    assert "takes the CPU: NVIDIA DALI cannot use gpu:0: its driver is old" in capsys.readouterr().err


def test_a_rate_is_that_of_the_batches_after_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that advances by a quarter of a second for each batch, and by 100 s for the first."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    begun: list[int] = []
    done: list[int] = []

    class Work:
        def result(self) -> None:
            now[0] += 0.25 if done else 100.0
            done.append(len(begun))

    def start(number: int) -> Started:
        begun.append(number)
        return Started((np.zeros((5, 2, 2, 3), np.uint8), None), [Work()])

    assert rate.images_per_second(start, num_ahead=2) == 20.0
    assert begun == list(range(len(begun))) and done[:3] == [3, 4, 5]  # two are begun beside the one that is waited for
    assert len(done) == 3 + 4  # a second, and at least three batches


@pytest.mark.parametrize("chosen", ["cpu", "gpu"])
def test_a_state_keeps_what_was_chosen(
    folder: Path, monkeypatch: pytest.MonkeyPatch, rates: list[float], chosen: str
) -> None:
    let_there_be_a_gpu(monkeypatch)
    rates += [1.0, 2.0] if chosen == "gpu" else [2.0, 1.0]
    batches = open_loader(folder)
    expected = copied(batches)
    rates += [2.0, 1.0] if chosen == "gpu" else [1.0, 2.0]  # today it would be the other one
    again = open_loader(folder)
    again.restore(batches.state(0, 1))
    assert_same(copied(again), expected[1:])
    assert len(rates) == 2 and again.state()["decoder"] == chosen
    assert_same(copied(pickle.loads(pickle.dumps(open_loader(folder, chosen)))), expected)


def test_a_state_of_a_gpu_is_refused_without_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        let_there_be_a_gpu(patch)
        state = open_loader(folder, "gpu").state(0, 1)
    no_gpu(monkeypatch)
    batches = open_loader(folder)
    with pytest.raises(DeviceError, match="no NVIDIA GPU"):
        batches.restore(state)
    assert batches.state() == open_loader(folder).state()  # as if nothing had been


def test_another_decoder_than_that_of_the_state_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be_a_gpu(monkeypatch)
    state = open_loader(folder, "gpu").state(0, 2)
    batches = open_loader(folder, "cpu")
    with pytest.warns(
        UserWarning, match="made with decoder='gpu', and this loader has 'cpu': pixels differ by rounding"
    ) as told:
        batches.restore(state)
    assert told[0].filename == __file__
    assert batches.state()["decoder"] == "cpu" and len(list(batches)) == 1


def test_a_state_of_a_version_without_decoders_is_accepted(folder: Path) -> None:
    batches = open_loader(folder, "cpu")
    state = batches.state(0, 2)
    del state["decoder"]
    batches.restore(state)
    assert len(list(batches)) == 1


@pytest.mark.parametrize(("local_rank", "number"), [(0, 0), (1, 1), (2, 0)])
def test_each_process_of_a_host_has_its_own_gpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch, local_rank: int, number: int
) -> None:
    let_there_be_a_gpu(monkeypatch)
    monkeypatch.setattr(gpu_choice, "list_nvidia_devices", lambda: (object(), object()))
    monkeypatch.setattr(gpu_choice, "read_world", lambda: World(local_rank, 3, local_rank, 3, "here", "torchrun"))
    monkeypatch.setattr(gpu_choice, "gpu", gpu_pipeline.gpu)
    with Loader(folder, 4) as batches:
        assert gpu_choice.find_gpu(batches.records) == gpu_pipeline.DaliDevice("mixed", "gpu", number)
