"""Horovod: a process and 16 rows for each device, and the rate of one process times their number.

horovodrun -np 2 python examples/coming_from/horovod_before.py weights.npz 96
"""

import sys

import horovod.tensorflow.keras as hvd
import keras
import numpy as np
import tensorflow as tf

output, rows = sys.argv[1], int(sys.argv[2])
x = np.random.default_rng(0).normal(size=(rows, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)

hvd.init()
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.025 * hvd.size())), "mse")
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
if hvd.rank() == 0:
    np.savez(output, *model.get_weights())
