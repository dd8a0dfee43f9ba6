"""BDDL: task descriptions of BEHAVIOR and LIBERO, parsed, checked, scored and generated.

>>> from clframe.bddl import parse
>>> problem = parse(
...     "(define (problem p) (:domain igibson) (:objects door.n.01_1 - door.n.01)"
...     "(:init (open door.n.01_1)) (:goal (not (open ?door.n.01_1))))"
... )
>>> problem.goal.satisfied(problem.init), problem.goal.satisfied([])
(False, True)
"""

from clframe.bddl.domain import Domain, parse_domain, shipped_domain, shipped_domains
from clframe.bddl.errors import BDDLError
from clframe.bddl.goal import Goal
from clframe.bddl.parser import parse
from clframe.bddl.problem import Problem
from clframe.bddl.settings import Leniency, Limits
from clframe.bddl.syntax import Literal, Region
from clframe.bddl.words import explain
from clframe.bddl.writer import save, write

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
