"""The type that Keras computes in, for a whole process."""

from __future__ import annotations


def put(policy: str) -> None:
    """Let Keras compute by a dtype policy; in float64 throughout, where on JAX and PyTorch it makes float32 of most results."""
    import keras
    from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

    double = policy == "float64"
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_enable_x64", double)
    if keras.backend.backend() != "tensorflow":
        BIT64_TO_BIT32_DTYPE["float64"] = "float64" if double else "float32"
    keras.config.set_floatx("float64" if double else "float32")
    keras.config.set_dtype_policy(policy)
