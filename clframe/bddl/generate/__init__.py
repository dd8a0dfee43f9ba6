"""Task generation after LIBERO: templates, scenes, goals, and a checker that solves every task."""

from clframe.bddl.generate.catalogue import Catalogue, shipped_catalogue
from clframe.bddl.generate.suites import SUITES, Task, generate_tasks
from clframe.bddl.generate.validity import task_problems
from clframe.bddl.generate.world import solve

__all__ = [
    "SUITES",
    "Catalogue",
    "Task",
    "generate_tasks",
    "shipped_catalogue",
    "solve",
    "task_problems",
]
