"""Task generation after LIBERO: templates, scenes, goals, and a checker that solves every task."""

from clframe.worlds.bddl.generate.object_catalog import Catalog, shipped_catalog
from clframe.worlds.bddl.generate.suites import SUITES, Task, generate_tasks
from clframe.worlds.bddl.generate.validity import task_problems
from clframe.worlds.bddl.generate.world import solve

__all__ = [
    "SUITES",
    "Catalog",
    "Task",
    "generate_tasks",
    "shipped_catalog",
    "solve",
    "task_problems",
]
