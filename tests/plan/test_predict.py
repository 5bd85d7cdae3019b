"""Predictions: rules that hold for any set-up, and cases whose numbers can be checked by hand."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import DataError
from abreast.plan.constants import described, shipped
from abreast.plan.gradients import parse_format
from abreast.plan.machine import DeviceSpeed, LinkSpeed, Machine, find_machine
from abreast.plan.models import find_model
from abreast.plan.predict import buckets, predict, predictions, scenario_of
from abreast.plan.price import Price
from abreast.plan.questions import cost, helps, worth
from abreast.plan.roofline import StepTime
from abreast.plan.scenario import Scenarios
from abreast.plan.setup import Setup
from abreast.plan.simulate import Wires, Work, simulate
from abreast.plan.terms import terms
from benchmarks.published_model import Breakdown, PublishedScenario, breakdown, exposed_seconds

RESNET = Setup(find_model("resnet50"), find_machine("dgx-1-v100"), StepTime(0.2, 1.0, "given"), 64)
SLOW = replace(RESNET, machine=find_machine("pcie3-x1-box"))
SCENARIO = PublishedScenario(0.2, 8, 1, 25e6, 160, 100e6)


def efficiency(**changes: object) -> float:
    return float(breakdown(Scenarios([replace(SCENARIO, **changes)]), shipped()).efficiency[0])  # type: ignore[arg-type]


def in_closed_form(setup: Setup, num_devices: int, num_hosts: int) -> Breakdown:
    scenario = PublishedScenario(**vars(scenario_of(setup, num_devices, num_hosts)))
    return breakdown(Scenarios([scenario]), shipped())


def test_one_device_takes_its_given_step_time() -> None:
    assert efficiency(num_devices=1, exchange="none") == pytest.approx(1.0)
    assert predict(RESNET, 1).rows_per_second == pytest.approx(320)


def test_every_constant_has_a_meaning() -> None:
    entries = described()["constants"]
    assert len(entries) <= 40
    for entry in entries.values():
        assert entry["meaning"] and entry["unit"] and entry["value"] > 0 and entry["spread"] > 0


@settings(deadline=None)
@given(st.integers(1, 6), st.floats(1.01, 100), st.sampled_from(["ring", "ps-cpu", "ps-gpu", "ps-sharded", "tree"]))
def test_faster_links_and_fewer_devices_never_hurt(power: int, times: float, exchange: str) -> None:
    devices = 2**power
    now = efficiency(num_devices=devices, exchange=exchange)
    assert efficiency(num_devices=devices, exchange=exchange, device_bytes_per_second=times * 8e9) >= now
    assert efficiency(num_devices=2 * devices, exchange=exchange) <= now


@settings(deadline=None)
@given(st.integers(1, 5), st.floats(1.01, 100), st.sampled_from(["ring", "hierarchical", "ps-hosts", "tree"]))
def test_a_faster_network_never_hurts(power: int, times: float, exchange: str) -> None:
    many = {"num_devices": 8 * 2**power, "num_hosts": 2**power, "exchange": exchange}
    assert efficiency(**many, network_bytes_per_second=times * 1.25e9) >= efficiency(**many)


@settings(deadline=None)
@given(st.integers(20, 200), st.floats(0.01, 10))
def test_many_small_buckets_come_near_the_formula(count: int, per_window: float) -> None:
    window, exchange = 1.0, per_window
    found = simulate(
        Work(0.5, [window / count] * count, [1.0] * count),
        Wires("ring", 2, device_bytes_per_second=count / exchange),
    )
    formula = float(exposed_seconds(np.array(exchange), np.array(window), np.array(0.0)))
    assert found.exposed_seconds == pytest.approx(formula, abs=1.01 * (exchange + window) / count)


@pytest.mark.parametrize("exchange", ["ring", "hierarchical"])
@pytest.mark.parametrize("hosts", [1, 4])
@pytest.mark.parametrize("machine", ["dgx-1-v100", "aws-p3.16xlarge", "aws-p2.8xlarge"])
@pytest.mark.parametrize("model", ["resnet50", "vgg16", "bert_large"])
def test_simulation_and_formulas_agree(model: str, machine: str, hosts: int, exchange: str) -> None:
    setup = replace(RESNET, model=find_model(model), machine=find_machine(machine), exchange=exchange)
    formula = in_closed_form(setup, 8 * hosts, hosts)
    found = predict(setup, 8 * hosts, hosts).step_seconds
    assert found == pytest.approx(float(formula.step[0]), rel=0.10)  # measured 0.076: latencies, and the last bucket


def test_a_measured_network_rate_is_used_in_full() -> None:
    network = LinkSpeed("measured", 12.5e6)
    slow = replace(RESNET, machine=replace(RESNET.machine, devices_per_host=1, network=network), overlap=False)
    wire = 4 * RESNET.model.num_parameters / 12.5e6  # of two hosts each sends all of it, once
    assert predict(slow, 2, 2).parts["exchange"] == pytest.approx(wire, rel=0.01)


def test_gloo_waits_for_answers_on_a_network_with_latency() -> None:
    machine = replace(RESNET.machine, devices_per_host=1, network=LinkSpeed("measured", 125e6, 5e-3))
    far = replace(RESNET, machine=machine, overlap=True, step=StepTime(1e-3, 1.0, "given"), bucket_bytes=1e9)
    wire = 4 * RESNET.model.num_parameters
    waits = wire / 2**22 * 2 * 5e-3  # a round trip for every 4 MiB
    more = predict(replace(far, software="gloo"), 2, 2).parts["exchange"] - predict(far, 2, 2).parts["exchange"]
    assert more == pytest.approx(waits, rel=0.01)


def gloo(
    network: LinkSpeed, link_bytes_per_second: float = 1e9, step_seconds: float = 100.0, **changes: object
) -> Setup:
    """Hosts of one processor each; within a host, an all-reduce moves this many bytes in a second."""
    core = DeviceSpeed("a processor", 20e9)
    machine = Machine("a host", core, 1, LinkSpeed("all-reduce", link_bytes_per_second), network)
    setup = replace(RESNET, machine=machine, step=StepTime(step_seconds, 1.0, "given"), software="gloo")
    return replace(setup, **changes)  # type: ignore[arg-type]


GRADIENT_BYTES = 4 * RESNET.model.num_parameters
BUCKETS_SECONDS = 2 * GRADIENT_BYTES / 20e9  # of memory that is read and written once


def test_hidden_exchanges_of_gloo_cost_processor_time() -> None:
    """Sending, receiving and adding takes from the computation by the byte; the time that bytes are under way does not."""
    works = GRADIENT_BYTES / 1e9
    for rate in (12.5e6, 125e6, 500e6):
        setup = gloo(LinkSpeed("measured", rate))
        exposed = float(in_closed_form(setup, 2, 2).exposed[0])
        assert exposed == pytest.approx(works + BUCKETS_SECONDS)
        last = sum(4 * size for size in buckets(setup)[-1]) / rate  # has nothing to hide behind
        exchange = predict(setup, 2, 2).parts["exchange"]
        assert exchange == pytest.approx(works + last * (1 - rate / 1e9) + BUCKETS_SECONDS, rel=1e-6)


def test_gloo_sends_no_faster_to_another_host_than_inside_of_one() -> None:
    near = predict(gloo(LinkSpeed("measured", 1e9), step_seconds=1.0), 2, 2).step_seconds
    assert predict(gloo(LinkSpeed("measured", 50e9), step_seconds=1.0), 2, 2).step_seconds == pytest.approx(near)


@pytest.mark.parametrize("rate", [125e6, 1e9, 50e9])
def test_without_overlap_gloo_works_and_waits_for_the_network_in_turn(rate: float) -> None:
    exchange = predict(gloo(LinkSpeed("measured", rate), overlap=False), 2, 2).parts["exchange"]
    in_turn = GRADIENT_BYTES / rate + GRADIENT_BYTES / 1e9 + BUCKETS_SECONDS
    assert exchange == pytest.approx(in_turn, rel=0.01)  # `exposed.unoverlapped` is 0.995


def test_within_a_host_gloo_hides_nothing() -> None:
    """There is nothing to wait for: all of the exchange is work of the cores that compute."""
    setup = gloo(LinkSpeed("measured", 1e9))
    setup = replace(setup, machine=replace(setup.machine, devices_per_host=4))
    ring = 2 * 3 / 4 * GRADIENT_BYTES / 1e9
    assert predict(setup, 4).parts["exchange"] == pytest.approx(ring + BUCKETS_SECONDS)


@settings(deadline=None)
@given(st.floats(1e6, 1e11), st.floats(1e7, 1e11), st.floats(0, 0.05), st.floats(1.0, 100), st.floats(1e-2, 10))
def test_gloo_is_never_slower_on_a_better_network(
    rate: float, link: float, latency: float, times: float, step: float
) -> None:
    def seconds(rate: float, link: float, latency: float) -> float:
        return predict(gloo(LinkSpeed("measured", rate, latency), link, step), 2, 2).step_seconds

    now = seconds(rate, link, latency) * (1 + 1e-9)
    assert seconds(times * rate, link, latency) <= now
    assert seconds(rate, times * link, latency) <= now
    assert seconds(rate, link, latency / times) <= now


@pytest.mark.parametrize("rate", [12.5e6, 125e6, 1.25e9])
@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("step", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("model", ["resnet50", "vgg16", "bert_large"])
def test_for_gloo_too_simulation_and_formulas_agree(model: str, step: float, accumulation: int, rate: float) -> None:
    setup = gloo(LinkSpeed("measured", rate), step_seconds=step, accumulation=accumulation, model=find_model(model))
    formula = float(in_closed_form(setup, 2, 2).step[0])
    assert predict(setup, 2, 2).step_seconds == pytest.approx(formula, rel=0.02)  # measured 0.016: the last bucket


def test_steps_that_accumulate_save_the_update_and_add_up_gradients() -> None:
    setup = gloo(LinkSpeed("measured", 1e9), step_seconds=1.0)
    update = predict(setup, 1).parts["update"]
    adding = 20 * RESNET.model.num_parameters / 20e9
    four = predict(replace(setup, accumulation=4), 1)
    assert four.parts["compute"] == pytest.approx(4 * (1.0 - update + adding))
    assert four.parts["update"] == pytest.approx(update)
    of_steps = replace(scenario_of(setup, 1, 1), accumulation=4, step_accumulation=4)  # the known step adds up already
    assert float(terms(Scenarios([of_steps]), shipped()).compute[0]) == pytest.approx(1.0 - update)


def test_a_server_in_host_memory_is_not_reached_over_nvlink() -> None:
    server = {"exchange": "ps-cpu", "device_link": "nvlink"}
    assert efficiency(**server, device_bytes_per_second=900e9) == efficiency(**server, device_bytes_per_second=150e9)


def test_parts_add_up_to_the_step() -> None:
    point = predict(replace(RESNET, row_bytes=6e5, staged=False, input_rows_per_second=3000), 8)
    assert sum(point.parts.values()) == pytest.approx(point.step_seconds)
    assert all(seconds >= 0 for seconds in point.parts.values())
    assert point.low < point.rows_per_second < point.high


def test_the_input_rate_limits_a_host() -> None:
    point = predict(replace(RESNET, input_rows_per_second=1000), 8)
    assert point.rows_per_second == pytest.approx(1000, rel=0.001)
    assert point.bottleneck == "input"
    assert predict(replace(RESNET, input_rows_per_second=2600), 8).bottleneck == "compute"  # it takes most of a step
    assert predict(replace(RESNET, input_rows_per_second=1000), 16, 2).rows_per_second == pytest.approx(2000, rel=0.001)


def test_feeding_without_staging_costs_the_time_that_staging_hides() -> None:
    staged = predict(replace(RESNET, row_bytes=6e6), 4)
    in_step = predict(replace(RESNET, row_bytes=6e6, staged=False), 4)
    assert staged.parts["copies"] == 0
    assert in_step.parts["copies"] == pytest.approx(64 * 6e6 / 10e9)


@pytest.mark.parametrize(
    "better",
    [
        {"accumulation": 4},
        {"gradients": parse_format("bf16")},
        {"gradients": parse_format("powersgd:4")},
        {"gradients": parse_format("1-bit")},
        {"gradients": parse_format("top-k:0.001")},
        {"sync_every": 8},
        {"overlap": True},
    ],
)
def test_less_to_exchange_helps_where_links_are_slow(better: dict[str, object]) -> None:
    slow = replace(SLOW, overlap=False)
    # Measured 1.08 times as fast with overlap, and 1.5 to 3.1 times with the others.
    assert predict(replace(slow, **better), 4).rows_per_second > 1.05 * predict(slow, 4).rows_per_second  # type: ignore[arg-type]


def test_stragglers_and_bad_links_cost() -> None:
    well = predict(SLOW, 4).rows_per_second
    for worse in ({"straggler_spread": 0.2}, {"slow_device_link": 4.0}, {"lost_share": 0.1}):
        assert predict(replace(SLOW, **worse), 4).rows_per_second < well  # type: ignore[arg-type]


def test_strong_scaling_shares_the_batch() -> None:
    point = predict(replace(RESNET, strong=True), 8)
    assert point.rows_per_second < predict(RESNET, 8).rows_per_second
    assert point.rows_per_second * point.step_seconds == pytest.approx(64)


def test_buckets_hold_all_values_from_the_last_layer_on() -> None:
    groups = buckets(RESNET)
    assert sum(map(sum, groups)) == RESNET.model.num_parameters
    assert groups[0][0] == RESNET.model.sizes[-1]
    assert all(4 * sum(group) >= 25e6 > 4 * sum(group[:-1]) for group in groups[1:-1])
    assert 4 * sum(groups[0]) >= 2**20 > 4 * sum(groups[0][:-1])  # PyTorch's first
    assert len(buckets(replace(RESNET, bucket_bytes=0))) == RESNET.model.num_tensors


def test_a_thousand_devices_are_planned() -> None:
    found = predictions(replace(RESNET, straggler_spread=0.05), 1024)
    assert [point.num_devices for point in found] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert found[-1].num_hosts == 128


@pytest.mark.alone
@pytest.mark.parametrize("hosts", [1, 4, 128])
def test_a_plan_of_a_thousand_devices_takes_less_than_ten_seconds(hosts: int) -> None:
    machine = replace(RESNET.machine, devices_per_host=1024 // hosts)
    model = replace(RESNET.model, num_tensors=200, tensor_sizes=())
    setup = replace(RESNET, model=model, machine=machine, bucket_bytes=0.0, straggler_spread=0.1)
    begin = time.process_time()
    helps(setup, predictions(setup, 1024, hosts)[-1])
    assert time.process_time() - begin < 10  # measured 5.2 s on 4 hosts, 1.3 s on one; 26 s with all of them one by one


def test_one_device_waits_for_no_straggler() -> None:
    assert predict(replace(RESNET, straggler_spread=0.5), 1).efficiency == pytest.approx(1.0)


def test_a_roofline_widens_the_interval() -> None:
    rough = predict(replace(RESNET, step=StepTime(0.2, 2.0, "roofline")), 8)
    sure = predict(RESNET, 8)
    assert rough.high == pytest.approx(2 * sure.high) and rough.low == pytest.approx(sure.low / 2)


def test_a_prediction_with_too_wide_an_interval_is_not_made() -> None:
    hopeless = replace(SLOW, model=find_model("vgg16"), step=StepTime(0.001, 1.0, "given"))
    assert "interval would reach" in predict(hopeless, 4).abstains


def test_devices_are_worth_it_while_each_adds_half_of_its_throughput() -> None:
    assert worth(predictions(RESNET, 8)).num_devices == 8
    slow = replace(SLOW, model=find_model("vgg16"), step=StepTime(0.2, 1.0, "given"))
    assert worth(predictions(slow, 4)).num_devices == 1


def test_the_largest_help_comes_first() -> None:
    slow = replace(SLOW, overlap=False)
    found = helps(slow, predict(slow, 4))
    assert [each.gain for each in found] == sorted((each.gain for each in found), reverse=True)
    assert "NVLink of 150 GB/s between devices" in [each.change for each in found]


def test_an_epoch_costs_its_hours_times_its_devices() -> None:
    point = predict(RESNET, 8)
    found = cost(point, 3600 * point.rows_per_second, Price(3.0))
    assert found.hours == pytest.approx(1.0) and found.price == pytest.approx(24.0)
    assert found.low < found.price < found.high
    with pytest.raises(DataError, match="--epoch-rows -1"):
        cost(point, -1, Price(3.0))


@pytest.mark.parametrize(
    ("devices", "hosts", "message"),
    [(0, 1, "0 devices"), (3, 2, "3 devices on 2 hosts"), (16, 1, "16 devices per host, but dgx-1-v100 has 8")],
)
def test_devices_that_the_machine_cannot_have_are_refused(devices: int, hosts: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        predict(RESNET, devices, hosts)
    with pytest.raises(DataError, match="has no network"):
        predict(SLOW, 8, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 0}, "--batch 0"),
        ({"step": StepTime(-1, 1, "given")}, "a step of -1 s"),
        ({"step": StepTime(math.inf, 1, "given")}, "a step of inf s"),
        ({"accumulation": 0}, "--accumulate 0"),
        ({"row_bytes": -1.0}, "--row-bytes -1"),
        ({"exchange": "rings"}, "no exchange is called 'rings'"),
        ({"software": "dpp"}, "no software is called 'dpp'"),
        ({"precision": "fp23"}, "no precision is called 'fp23'"),
        ({"input_rows_per_second": 0.0}, "--input-rate 0"),
        ({"gradients": parse_format("top-k:0.1"), "exchange": "tree"}, "top-k gradients need an all-gather"),
    ],
)
def test_a_set_up_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(RESNET, **change)  # type: ignore[arg-type]
