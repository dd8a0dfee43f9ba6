"""How an experience is learned: engine, loop, optimizers, and several seeds as one model."""
