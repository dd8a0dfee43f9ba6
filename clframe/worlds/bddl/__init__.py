"""BDDL: task descriptions of BEHAVIOR and LIBERO, parsed, checked, scored and generated.

>>> from clframe.worlds.bddl import parse
>>> problem = parse(
...     "(define (problem p) (:domain igibson) (:objects door.n.01_1 - door.n.01)"
...     "(:init (open door.n.01_1)) (:goal (not (open ?door.n.01_1))))"
... )
>>> problem.goal.satisfied(problem.init), problem.goal.satisfied([])
(False, True)
"""

from clframe.worlds.bddl.domain import Domain, parse_domain, shipped_domain, shipped_domains
from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.goal import Goal
from clframe.worlds.bddl.limits import Leniency, Limits
from clframe.worlds.bddl.parser import parse
from clframe.worlds.bddl.problem import Problem
from clframe.worlds.bddl.syntax import Literal, Region
from clframe.worlds.bddl.words import explain
from clframe.worlds.bddl.writer import save, write

__all__ = [
    "BDDLError",
    "Domain",
    "Goal",
    "Leniency",
    "Limits",
    "Literal",
    "Problem",
    "Region",
    "explain",
    "parse",
    "parse_domain",
    "save",
    "shipped_domain",
    "shipped_domains",
    "write",
]
