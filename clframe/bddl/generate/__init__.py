"""Task generation after LIBERO: templates, scenes, goals, and a checker that solves every task."""

from clframe.bddl.generate.catalog import Catalog, shipped_catalog
from clframe.bddl.generate.suites import SUITES, Task, generate_tasks
from clframe.bddl.generate.validity import task_problems
from clframe.bddl.generate.world import solve

__all__ = [
    "SUITES",
    "Catalog",
    "Task",
    "generate_tasks",
    "shipped_catalog",
    "solve",
    "task_problems",
]
