"""A small U-Net for segmentation, with a class weight per pixel."""

# On PyTorch, Keras's own step fails.
BACKENDS = ("jax", "tensorflow")

import keras
import numpy as np
from keras import layers

from tests.habits.data import images

x, _ = images(rows=16)
mask = (x > 0.5).astype("int32")
inputs = keras.Input((8, 8, 1))
down = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
deep = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.MaxPooling2D()(down))
up = layers.Conv2D(4, 3, padding="same")(layers.UpSampling2D()(deep))
model = keras.Model(inputs, layers.Conv2D(2, 1, activation="softmax")(layers.concatenate([up, down])))
model.compile(
    "adam", "sparse_categorical_crossentropy", weighted_metrics=[keras.metrics.MeanIoU(2, sparse_y_pred=False)]
)
history = model.fit(x, mask, sample_weight=np.where(mask, 2.0, 1.0), epochs=2, batch_size=6, verbose=0)
result = {"model": model, "history": history}
