"""How an experience is learned: engine, loop, optimisers, and several seeds as one model."""
