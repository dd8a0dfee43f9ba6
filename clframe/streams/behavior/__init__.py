"""BEHAVIOR's household activities, without physics.

An activity (`corpus`, `clframe.bddl`) becomes a household of slots with abilities (`household`,
`categories`, `supplies`) in a scene (`scene`), at a start in which its initial conditions hold
(`sampling`). Primitives (`verbs`: `moving`, `handling`, `matter`) change its `state`, while `heat`
lets time pass; `facts` says which literals hold and `tracker` scores them. `env` is the Gymnasium
environment (extra ``clframe[robot]``), `planner` the solver, `record` what the metrics need.
"""
