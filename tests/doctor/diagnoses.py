"""Invented diagnoses for the tests of the page: a run that starves, a healthy one, and one with far too much data."""

from __future__ import annotations

import random

from abreast.doctor.diagnosis import Diagnosis, Experiment, Finding
from abreast.samplers.sample import DeviceSample
from abreast.spans import MAIN, READER, STAGER, Span
from abreast.timeline.step_spans import CALLBACKS, STEPS

_MS = 1_000_000
PLANTED = "<script>alert('planted')</script>\"'&\x00"
_FACTS = {
    "abreast": "0.1.0",
    "keras": "3.15.1",
    "jax": "0.12.0",
    "python": "3.11.7",
    "machine": "AMD EPYC, 16 cores, 64.0 GiB",
    "bytes of a batch": "588 MiB",
    "staged ahead": "2 batches",
    "data type of the model": "float32",
}


def device_names(number: int, kind: str = "gpu") -> tuple[str, ...]:
    return tuple(f"{kind}:{index}" for index in range(number))


def starving(num_devices: int = 4) -> Diagnosis:
    """41 % of a step is waiting for a slow source."""
    names = device_names(num_devices)
    breakdown = {
        "waiting for input": 0.0382,
        "copying to devices": 0.0041,
        "computing": 0.0406,
        "all-reduce": 0.0052,
        "callbacks": 0.0028,
        "rest of Python": 0.0012,
    }
    findings = (
        Finding(
            "slow-source",
            "The devices wait for data in 41% of each step",
            "Median 38.2 ms of 92.1 ms, 200 steps. The source alone gives a batch in 90.4 ms; the same batch again and again "
            "takes 53.9 ms. 6 of 16 cores decode, and each is busy 97% of the time.",
            "Decode with more threads: `workers=12` in the data set; then a batch is there in 45 ms.",
            0.0382,
            18_998.0,
        ),
        Finding(
            "float32-input",
            "float32 images are copied where uint8 would do",
            "588 MiB of each batch travel to the devices; all 154,140,672 values are whole numbers from 0 to 255.",
            "Keep images as uint8 and begin the model with `keras.layers.Rescaling(1 / 255)`.",
            0.0031,
            11_506.0,
        ),
        Finding(
            "slow-callback",
            "A callback takes 2.8 ms of each step",
            "`Progress.on_train_batch_end` took 2.8 ms (median of 200 steps); without callbacks a step takes 89.1 ms.",
            "Call it every 50 steps, or once an epoch.",
            0.0028,
            11_470.0,
        ),
    )
    experiments = (
        Experiment("no input", "the same batch again and again", 40, 0.0539, 0.0011),
        Experiment("source alone", "batches are read, nothing is trained", 40, 0.0904, 0.0062),
        Experiment("one device", "no all-reduce, a quarter of the rows", 40, 0.0879, 0.0034),
        Experiment("no callbacks", "as given, without callbacks", 40, 0.0891, 0.0029),
    )
    spans = _steps(names, wait=38, num_steps=4)
    samples = _samples(names, busy=0.52, num_samples=80)
    return Diagnosis(
        "resnet50", "jax", names, 1024, 200, 0.0921, breakdown, findings, experiments, spans, samples, dict(_FACTS)
    )


def healthy(num_devices: int = 4) -> Diagnosis:
    """Nothing to be found."""
    names = device_names(num_devices)
    breakdown = {
        "waiting for input": 0.0002,
        "copying to devices": 0.0006,
        "computing": 0.0489,
        "all-reduce": 0.0031,
        "callbacks": 0.0003,
        "rest of Python": 0.0008,
    }
    experiments = (
        Experiment("no input", "the same batch again and again", 40, 0.0536, 0.0009),
        Experiment("source alone", "batches are read, nothing is trained", 40, 0.0214, 0.0020),
    )
    spans = _steps(names, wait=0, num_steps=4)
    samples = _samples(names, busy=0.96, num_samples=80)
    return Diagnosis(
        "resnet50", "jax", names, 1024, 200, 0.0539, breakdown, (), experiments, spans, samples, dict(_FACTS)
    )


def bare() -> Diagnosis:
    """A diagnosis with only a step."""
    return Diagnosis("model", "torch", ("cpu:0",), 8, 1, 0.5, {}, ())


def hostile() -> Diagnosis:
    """Every text that a user may choose is markup, and long."""
    long = PLANTED + "a" * 3000
    finding = Finding(PLANTED, long, long, long, 0.02, 100.0)
    experiment = Experiment(long, long, 3, 0.01, 0.0)
    spans = tuple(
        Span(track, name, start * _MS, (start + 9) * _MS, {PLANTED: 1.5})
        for start, (track, name) in enumerate([(MAIN, PLANTED), (long, "compute"), ("gpu:0", long)])
    )
    sample = DeviceSample(long, 5, 0.5, 1000)
    parts = {PLANTED: 0.01, long: 0.02}
    return Diagnosis(
        long, PLANTED, (long,) * 3, 32, 4, 0.03, parts, (finding,), (experiment,), spans, (sample,), {PLANTED: long}
    )


def broken() -> Diagnosis:
    """A diagnosis with values that are not finite."""
    nan, infinite = float("nan"), float("inf")
    finding = Finding("odd", "An odd finding", "", "", nan, nan)
    experiments = (Experiment("odd", "", 0, nan, infinite), Experiment("none", "", 0, 0.0, 0.0))
    spans = (Span(MAIN, "instant", 5, 5, {"bytes": nan}), Span(MAIN, "backwards", 9, 3, {}))
    samples = (DeviceSample("cpu:0", 1, nan, 0), DeviceSample("cpu:0", 2, infinite, 0, nan))
    parts = {"waiting for input": nan, "computing": -1.0, "all-reduce": 0.0}
    return Diagnosis("model", "jax", (), 0, 0, 0.0, parts, (finding,), experiments, spans, samples)


def enormous() -> Diagnosis:
    """64 devices, 20,000 spans, 64,000 samples, 200 findings and parts."""
    names = device_names(64)
    draws = random.Random(0)
    spans = [
        Span(names[number % 64], f"kernel {number % 50}", start, start + draws.randrange(1, 2 * _MS), {"bytes": 1e6})
        for number in range(20_000)
        for start in [draws.randrange(500 * _MS)]
    ]
    findings = tuple(
        Finding(f"cause-{number}", f"Finding number {number}", "evidence " * 40, "advice " * 40, number * 1e-4)
        for number in range(200)
    )
    experiments = tuple(Experiment(f"experiment {number}", "what", 10, 0.01 * number, 0.001) for number in range(200))
    parts = {f"part {number}": 0.001 * (number + 1) for number in range(200)}
    facts = {f"fact {number}": "value " * 100 for number in range(500)}
    samples = _samples(names, busy=0.8, num_samples=1000)
    return Diagnosis(
        "x" * 10_000, "jax", names, 65_536, 50, 20.1, parts, findings, experiments, tuple(spans), samples, facts
    )


def _steps(names: tuple[str, ...], wait: int, num_steps: int) -> tuple[Span, ...]:
    """Steps of `wait` + 54 ms: the main thread waits, and the devices compute while the next batch is read."""
    draws = random.Random(1)
    spans: list[Span] = []

    def add(track: str, name: str, start: float, length: float, **numbers: float) -> None:
        spans.append(Span(track, name, round(start * _MS), round((start + length) * _MS), numbers))

    for number in range(num_steps):
        start = number * (wait + 54) + 3.0
        reading = wait + 52 if wait else 21
        add(STEPS, f"step {number}", start, wait + 53.5, epoch=0)
        add(READER, "read", start - 2, reading, batch=number)
        add(STAGER, "put", start + wait - 4.4, 4.2, batch=number, bytes=616_562_688)
        if wait:
            add(MAIN, "wait", start, wait, batch=number)
        add(MAIN, "step", start + wait + 0.3, 1.5, kind=0)
        add(CALLBACKS, "on_train_batch_end", start + wait + 50.2, 2.8)
        for name in names:
            begin = start + wait + 1.5 + draws.random()
            add(name, "compute", begin, 41 + draws.random())
            add(name, "all-reduce", begin + 42.2, 5.2)
    return tuple(spans)


def _samples(names: tuple[str, ...], busy: float, num_samples: int) -> tuple[DeviceSample, ...]:
    draws = random.Random(2)
    return tuple(
        DeviceSample(
            name,
            number * 100 * _MS,
            min(1.0, max(0.0, draws.gauss(busy, 0.08 if busy < 0.9 else 0.02))),
            round((11.2 + index * 0.1 + min(number, 8) * 0.9) * 2**30),
            1410.0 - 15 * index,
        )
        for index, name in enumerate(names)
        for number in range(num_samples)
    )


EVERY = [starving, healthy, bare, hostile, broken, enormous]
