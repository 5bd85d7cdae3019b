"""Settings of Keras and PyTorch that a script changes hold in every worker from the next step on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.harness.client import Workers

NAMES = (
    *("epsilon", "image_data_format", "dtype_policy", "floatx", "flash_attention"),
    *("default_dtype", "matmul_precision", "fp32_precision", "deterministic", "fill", "benchmark", "cudnn", "mkldnn"),
    "wide_results",
    *("anomalies", "attention_kernel", "autocast", "autocast_type", "reduced_precision"),
)


def settings() -> Any:
    """In a worker: for each setting, its setter, its first and its later value, and its reader."""
    import keras
    import torch
    from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

    config, cuda = keras.config, torch.backends.cuda
    cudnn: Any = torch.backends.cudnn

    def put(owner: Any, name: str) -> Callable[[Any], Any]:
        return lambda value: setattr(owner, name, value)

    def flash(on: bool) -> None:
        config.enable_flash_attention() if on else config.disable_flash_attention()

    flags = {
        "benchmark": (cudnn, "benchmark"),
        "cudnn": (cudnn, "enabled"),
        "mkldnn": (torch.backends.mkldnn, "enabled"),
        "fill": (torch.utils.deterministic, "fill_uninitialized_memory"),
        "reduced_precision": (cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    }
    of_flags = {
        name: (put(owner, flag), True, False, lambda owner=owner, flag=flag: getattr(owner, flag))
        for name, (owner, flag) in flags.items()
    }
    return of_flags | {
        "epsilon": (config.set_epsilon, 1e-7, 1e-3, config.epsilon),
        "image_data_format": (config.set_image_data_format, "channels_last", "channels_first", config.image_data_format),
        "dtype_policy": (config.set_dtype_policy, "float32", "mixed_bfloat16", lambda: config.dtype_policy().name),
        "floatx": (config.set_floatx, "float32", "float64", config.floatx),
        "wide_results": (
            lambda kind: BIT64_TO_BIT32_DTYPE.update(float64=kind), "float32", "float64", lambda: BIT64_TO_BIT32_DTYPE["float64"]
        ),
        "flash_attention": (flash, True, False, config.is_flash_attention_enabled),
        "default_dtype": (torch.set_default_dtype, torch.float32, torch.float64, torch.get_default_dtype),
        "matmul_precision": (
            torch.set_float32_matmul_precision, "highest", "high", torch.get_float32_matmul_precision
        ),
        "fp32_precision": (
            put(cudnn.conv, "fp32_precision"), "ieee", "tf32", lambda: cudnn.conv.fp32_precision
        ),
        "deterministic": (torch.use_deterministic_algorithms, False, True, torch.are_deterministic_algorithms_enabled),
        "anomalies": (torch.autograd.set_detect_anomaly, False, True, torch.is_anomaly_enabled),
        "attention_kernel": (cuda.enable_math_sdp, True, False, cuda.math_sdp_enabled),
        "autocast": (lambda on: torch.set_autocast_enabled("cpu", on), False, True, lambda: torch.is_autocast_enabled("cpu")),
        "autocast_type": (
            lambda kind: torch.set_autocast_dtype("cpu", kind),
            torch.bfloat16,
            torch.float16,
            lambda: torch.get_autocast_dtype("cpu"),
        ),
    }  # fmt: skip


def train(names: tuple[str, ...], devices: int = 0) -> dict[str, list[float]]:
    """In a worker: losses of a model whose layer doubles if a setting differs from its first value."""
    return {name: _train(name, devices) for name in names}


def _train(name: str, devices: int) -> list[float]:
    import keras

    put, first, then, _ = settings()[name]
    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    losses: list[float] = []

    def models() -> Any:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), Doubling(name)])
        model.compile("sgd", "mse")
        if devices:
            import abreast

            abreast.parallelize(model, devices)
        return model

    def fit(model: Any, *values: Any) -> None:
        left = iter(values)
        acting = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: put(next(left, values[-1])))
        losses.extend(model.fit(x, x[:, :2], 8, 2, verbose=0, shuffle=False, callbacks=[acting]).history["loss"])

    try:
        put(first)
        one = models()
        fit(one, first, then, first, then)
        put(then)
        other = models()
        fit(other, then)
        put(first)
        fit(one, first)  # which is as it was when it was sent
        losses.append(one.evaluate(x, x[:, :2], 8, verbose=0))
    finally:
        put(first)
    return losses


def Doubling(name: str) -> Any:  # noqa: N802
    import keras

    class Layer(keras.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(dtype="float32")

        def call(self, x: Any) -> Any:
            from tests.test_torch_settings import settings

            _, first, _, read = settings()[name]
            return x if read() == first else 2 * x

    return Layer()


@pytest.mark.in_turn
def test_settings_that_a_script_changes_hold_in_every_worker(workers: Workers) -> None:
    if workers.backend != "torch":
        pytest.skip("one process drives all devices")
    plain = workers.plain.run(train, names=NAMES)
    placed = workers.abreast.run(train, names=NAMES, devices=2)
    # Measured: 1e-3 where a setting asks for bfloat16; an old setting in a worker makes 0.5 and more.
    gaps = {name: float(np.max(np.abs(np.subtract(plain[name], placed[name])))) for name in NAMES}
    assert {name: gap for name, gap in gaps.items() if not gap < 1e-2} == {}
