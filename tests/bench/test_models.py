"""The models by name are those that were published, and their input may be made on the device."""

from __future__ import annotations

import pytest

from tests.bench import bodies
from tests.harness.client import Workers

# Keras's documentation, "Keras Applications"; TensorFlow's benchmarks count 61.8 million for AlexNet with 1,001 classes.
PUBLISHED = {"resnet50": 25_636_712, "vgg16": 138_357_544, "inceptionv3": 23_851_784, "cifar10": 1_250_858}


@pytest.mark.full
def test_models_have_the_weights_that_were_published(workers: Workers) -> None:
    found = workers.abreast.run(bodies.sizes, names=list(PUBLISHED))
    assert {name: count for name, (count, _) in found.items()} == PUBLISHED
    assert found["inceptionv3"][1] == [299, 299, 3]


@pytest.mark.in_turn
def test_our_own_models_have_the_weights_counted_by_hand(workers: Workers) -> None:
    found = workers.abreast.run(bodies.sizes, names=["tiny", "mlp", "cifar10", "alexnet", "transformer"])
    assert found["tiny"] == (32 * 64 + 64 + 64 * 10 + 10, [32])
    assert found["mlp"] == (784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10, [784])
    assert found["cifar10"][0] == PUBLISHED["cifar10"]
    convolutions = sum(
        size * size * before * after + after
        for size, before, after in ((11, 3, 64), (5, 64, 192), (3, 192, 384), (3, 384, 384), (3, 384, 256))
    )
    assert found["alexnet"][0] == convolutions + 9216 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 1000 + 1000
    block = 2 * 2 * 256 + 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256
    assert found["transformer"] == (8192 * 256 + 4 * block + 2 * 256 + 2560 + 10, [128])


@pytest.mark.in_turn(1)
def test_the_applications_are_all_those_of_keras(workers: Workers) -> None:
    assert workers.abreast.run(bodies.missing_applications) == ([], [])


def test_rows_made_on_the_device_differ_and_are_floats_or_tokens(workers: Workers) -> None:
    first, second = workers.abreast.run(bodies.rows_made_on_the_device, tokens=None)
    assert [len(first), len(first[0])] == [3, 2]
    assert second[0][0] - first[0][0] == pytest.approx(0.25, abs=1e-6)
    tokens = workers.abreast.run(bodies.rows_made_on_the_device, tokens=100)
    flat = [token for row in tokens for pair in row for token in pair]
    assert all(token == int(token) and 0 <= token < 100 for token in flat)
    assert tokens[0] != tokens[1]


@pytest.mark.parametrize("steps_per_epoch", [20, 3])
def test_the_clock_drops_the_warm_up_waits_twice_and_ends_the_fit(workers: Workers, steps_per_epoch: int) -> None:
    """Also where epochs end in between."""
    seconds, waits, begun = workers.abreast.run(bodies.clocked, steps_per_epoch=steps_per_epoch)
    assert 0.02 < seconds < 2  # a batch begins 20 ms late
    assert waits == 2
    assert begun in (8, 9)  # two dropped, five timed, and the one that ends it
