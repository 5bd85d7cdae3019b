"""A step of one's own uses PyTorch's optimizer with a schedule and a gradient scaler, each of which counts its steps."""

BACKENDS = ("torch",)

import torch

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        self.steps.zero_grad()
        loss = self.squares(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.steps)
        self.scaler.update()
        self.schedule.step()
        return {"loss": loss, "rate": self.schedule.get_last_lr()[0], "scale": self.scaler.get_scale()}


x, y = regression(rows=64)
model = Own()
model(x[:1])
model.steps = torch.optim.Adam([weight.value for weight in model.trainable_weights], lr=0.05)
model.schedule = torch.optim.lr_scheduler.StepLR(model.steps, step_size=3, gamma=0.5)
model.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
model.compile()
history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "steps": model.schedule.last_epoch}
