"""Training of an experience: engine, loop, optimizers, and several seeds as one model."""
