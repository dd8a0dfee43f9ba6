"""A planner over primitives: `search.plan`."""
