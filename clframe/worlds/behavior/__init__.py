"""BEHAVIOR's household activities, with and without physics.

An activity (`corpus`, `clframe.worlds.bddl`) becomes a household of slots with abilities
(`household`, `categories`, `supplies`) in a scene (`scene`), at a start in which its initial
conditions hold (`sampling`). Primitives (`verbs`: `moving`, `handling`, `matter`) change its
`state`, while `heat` lets time pass; `facts` says which literals hold and `tracker` scores them.
`env` is the Gymnasium environment, `planner` the solver, `record` what the metrics need.
"""
