"""DistributedDataParallel around a Keras model: a process and 16 rows for each device.

KERAS_BACKEND=torch torchrun --nproc-per-node 2 examples/coming_from/ddp_before.py weights.npz 96
"""

import sys

import keras
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

output, rows = sys.argv[1], int(sys.argv[2])
x = np.random.default_rng(0).normal(size=(rows, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
if torch.cuda.is_available():
    torch.cuda.set_device(dist.get_rank())
data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data, shuffle=False))

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
for _ in range(3):
    for batch_x, batch_y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(parallel(batch_x), batch_y.to(model.weights[0].value.device)).backward()
        optimizer.step()
if dist.get_rank() == 0:
    np.savez(output, *model.get_weights())
dist.destroy_process_group()
