"""Keras's private names (`keras.src`): one module per concern; each states the versions in which a name differs.

No other module of abreast imports `keras.src`; a test checks that. If a module states no version, its names are the same in
Keras 3.13, 3.14, 3.15 and the nightly builds of 3.16. The modules `jax`, `tensorflow` and `torch` import that
framework, so only the backend that runs imports them. Not here: private attributes of Keras's public objects.
"""
