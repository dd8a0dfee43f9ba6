"""LIBERO's manipulation tasks on bodies made of primitives, simulated by MuJoCo.

A task description (`clframe.worlds.bddl`) is compiled to a MuJoCo model (`compiler`), simulated
(`simulation`), started from its regions (`placement`), stepped by a hand with or without an arm
(`world`, `control`), judged by its predicates (`predicates`), seen by two ray-cast cameras
(`images`), and solved by a scripted expert (`expert`). `env` is its Gymnasium environment,
`suites` lists the tasks.
"""
