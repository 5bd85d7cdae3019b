"""Optimizers that begin with the weights of the model: Keras's `ScheduleFreeAdamW`, since 3.15, and one of the user's."""

import keras

from tests.habits.data import regression


class FromStart(keras.optimizers.SGD):
    """Pulls each weight to its value of the beginning."""

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        (self.starts,) = self.add_optimizer_variables(variables, ["start"])
        for start, variable in zip(self.starts, variables):
            self.assign(start, keras.ops.copy(variable))

    def update_step(self, gradient, variable, learning_rate):
        start = self.starts[self._get_variable_index(variable)]
        super().update_step(gradient + 0.1 * (variable - start), variable, learning_rate)


x, y = regression(rows=72)
losses, models = [], []
for kind in (getattr(keras.optimizers, "ScheduleFreeAdamW", keras.optimizers.AdamW), FromStart):
    for is_built in (False, True):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
        model.compile(kind(0.05), "mse")
        if is_built:
            model.optimizer.build(model.trainable_variables)
        losses += model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history["loss"]
        models.append(model)
result = {"losses": losses, "models": [model.get_weights() for model in models]}
