"""A PyTorch module with BatchNorm, wrapped as a layer (fine-tuning of torchvision models)."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import images

torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3),
    torch.nn.BatchNorm2d(4),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
)
x, y = images()
x = x.transpose(0, 3, 1, 2).copy()
inputs = keras.Input((1, 8, 8))
model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.TorchModuleWrapper(net, output_shape=(None, 4))(inputs)))
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
state = {name: value.detach().numpy() for name, value in net.state_dict().items()}
result = {"model": model, "history": history, "state": state}
