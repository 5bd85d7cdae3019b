"""Windows of a time series through `timeseries_dataset_from_array`."""

NEEDS = ("tensorflow",)

import keras
import numpy as np

wave = np.sin(np.arange(60) / 3).astype("float32")[:, None]
data = keras.utils.timeseries_dataset_from_array(wave[:-6], wave[6:], sequence_length=6, batch_size=11)
model = keras.Sequential([keras.Input((6, 1)), keras.layers.LSTM(5), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(data, epochs=2, verbose=0)
result = {"model": model, "history": history}
