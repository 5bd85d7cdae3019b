"""Keras's tests that pass with plain Keras and cannot pass on several devices, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from tests.harness.client import BACKENDS


@dataclass(frozen=True)
class Named:
    """`test` is the end of a test's id."""

    test: str
    reason: str
    backends: tuple[str, ...] = BACKENDS

    def names(self, backend: str, test: str) -> bool:
        return backend in self.backends and test.endswith(self.test)


_RUNNING_TEST = (
    "the class of the model, its loss or its metric refers to the running test, which cannot be sent to another process: "
    "refused by name before the first step"
)
_TF_DISTRIBUTE = "the test trains under `tf.distribute`, which does not mix with abreast"
_TABLE = "the model holds a lookup table of TensorFlow, which cannot be sent to another process: refused by name"
_RAGGED = "ragged rows are not cut into shards: refused by name before the first step"
_DENSE = "the test wants its layers to get sparse tensors, and batches are made dense: the numbers are the same"
_WARNS = "the test counts a warning of Keras's in the model's `call`, which each replica runs, and the look at the rows"
_FLOAT8 = "the test trains in float8, whose scales replicas would add up: refused by name before the first step"
_MODEL_PARALLEL = "the test sets a `keras.distribution.ModelParallel`: refused by name before the first step"

EXCEPTIONS: tuple[Named, ...] = (
    Named("::test_evaluate_with_custom_compute_loss", _RUNNING_TEST, ("torch",)),
    Named("::test_fwd_pass_loss_presence_in_compute_loss", _RUNNING_TEST, ("torch",)),
    Named("::test_metric_update_in_compute_loss", _RUNNING_TEST, ("torch",)),
    Named("::test_functional_deeply_nested_outputs_struct_losses", _RUNNING_TEST, ("torch",)),
    Named("::test_functional_struct_outputs_dict_struct_losses_not_weighted", _RUNNING_TEST, ("torch",)),
    Named("::test_functional_struct_outputs_dict_struct_losses_weighted", _RUNNING_TEST, ("torch",)),
    Named("::test_functional_struct_outputs_namedtuple_struct_losses", _RUNNING_TEST, ("torch",)),
    *(Named(f"::test_functional_struct_outputs_struct_losses{n}", _RUNNING_TEST, ("torch",)) for n in (0, 1, 6, 7)),
    Named("FeatureSpaceTest::test_tf_data_async_processing", _TABLE, ("torch",)),
    Named("JAXTrainerTest::test_train_on_batch_ModelParallel", _MODEL_PARALLEL, ("jax",)),
    Named("::test_swap_ema_weights_with_tf_distribute", _TF_DISTRIBUTE, ("tensorflow",)),
    *(
        Named(f"::test_trainer_with_raggeds_{kind}", _RAGGED, ("tensorflow",))
        for kind in ("functional", "layer", "model")
    ),
    Named("EmbeddingTest::test_ragged", _RAGGED, ("tensorflow",)),
    *(
        Named(f"::test_fit_sparse_{kind}_{mode}", _DENSE, ("tensorflow",))
        for kind in ("jax", "scipy", "tf")
        for mode in ("eager", "graph")
    ),
    *(
        Named(f"::test_quantize_{name}", _FLOAT8, ("tensorflow", "torch"))
        for name in ("dtype_argument_float8", "float8_fitting")
    ),
    Named("::test_warning_for_mismatched_inputs_structure", _WARNS, ("tensorflow", "torch")),
)


def reason(backend: str, test: str) -> str | None:
    """Why a test cannot pass on several devices; None for one that must."""
    return next((one.reason for one in EXCEPTIONS if one.names(backend, test)), None)
