"""`enable_op_determinism` where there is one, and a layer with a seed."""

import keras

from tests.habits.data import images

if keras.backend.backend() == "torch":
    import torch

    torch.use_deterministic_algorithms(True)
x, y = images()
model = keras.Sequential(
    [
        keras.layers.Conv2D(4, 3, kernel_initializer=keras.initializers.HeNormal(seed=3)),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(3, "softmax", kernel_initializer=keras.initializers.GlorotUniform(seed=4)),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
if keras.backend.backend() == "torch":
    torch.use_deterministic_algorithms(False)
result = {"model": model, "history": history}
