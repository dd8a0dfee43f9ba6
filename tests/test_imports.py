"""What may import what, read from the syntax trees: one table for every folder of the package.

All imports count: at the top of a module, inside functions and under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent / "clframe"

BASE = {"errors", "utils"}
CORE = BASE | {"hookspecs", "data", "core", "evaluation", "recording"}
METHODS = CORE | {"models", "metrics", "robot"}
# What a folder, or a module of the root, may import beside itself. A folder below another one that
# has an entry of its own ("plugins.builtin") follows that entry.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "utils": {"errors"},
    "embedded": set(),
    # Simulators, renderer and task languages know nothing of continual learning.
    "worlds": BASE,
    "bddl": {"worlds"},
    "data": BASE | {"core"},
    "hookspecs": {"core", "data"},  # types only
    "core": CORE,
    "evaluation": CORE,
    "recording": CORE,
    "distributed": CORE,
    "training": CORE | {"distributed"},
    "checkpoint": CORE,
    "runs": CORE | {"checkpoint"},
    "strategies": CORE,
    "config": CORE | {"checkpoint", "runs", "strategies", "models"},
    "build": CORE | {"checkpoint", "config", "distributed", "runs", "strategies", "training"},
    "run": CORE | {"checkpoint", "runs"},
    "api": CORE | {"build", "config", "distributed", "run", "runs", "strategies", "training"},
    "testing": CORE
    | {*("build", "checkpoint", "config", "models", "run", "runs", "strategies", "sweep")},
    # What is plugged in knows core, and public modules of few neighbours.
    "metrics": CORE | {"worlds"},  # BEHAVIOR's success score is the goal's own
    "models": CORE,
    "loggers": CORE | {"runs"},
    "robot": CORE | {"worlds"},
    "rl": CORE | {"models", "robot", "worlds"},
    # BEHAVIOR's episodes are measured by its metrics, in the processes that run them.
    "streams": CORE | {"metrics", "robot", "worlds"},
    "plugins": METHODS,
    # An image of the matrix is drawn by the report.
    "plugins.builtin": METHODS | {"report", "runs", "training"},
    # What is done with runs.
    "report": CORE | {"metrics", "runs"},
    "watch": CORE | {"report", "runs"},
    "sweep": CORE | {"api", "build", "config", "report", "run", "runs", "training"},
    "attached": CORE | {"checkpoint", "strategies", "training"},
    "reproduce": CORE
    | {"api", "build", "checkpoint", "config", "distributed", "run", "runs", "strategies"}
    | {"training"},
    "cli": {
        *CORE,
        *("api", "bddl", "build", "checkpoint", "config", "distributed", "loggers", "reproduce"),
        *("metrics", "plugins", "report", "robot", "run", "runs", "strategies", "streams"),
        # What a run would have logged is sent later as the run itself would have done it.
        *("sweep", "testing", "training", "watch", "worlds", "plugins.builtin"),
    },
    "__main__": {"cli"},
    # Public names, imported when they are first used.
    "__init__": {
        *("api", "attached", "config", "core", "data", "errors", "hookspecs", "recording"),
        *("reproduce", "utils"),
    },
}
# Who may be imported by whom although it closes a circle, and why.
CYCLES = {
    # The contract names the types of what plugins are given; it imports them for the type checker
    # alone, and everything that calls hooks imports the contract.
    "clframe.hookspecs",
}


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ["clframe", *path.relative_to(ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports; a name that is no module stands for its home."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name not in MODULES:
                name = name.rpartition(".")[0]
            if name in MODULES:
                found.add(name)
    return found


@functools.cache
def graph() -> dict[str, set[str]]:
    """Not read when tests are collected, which every worker does."""
    return {name: imports(path) - {name} for name, path in MODULES.items()}


def room_of(module: str) -> str:
    """The entry of the table that a module follows."""
    parts = module.split(".")[1:] or ["__init__"]
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in MAY_IMPORT:
            return ".".join(parts[:length])
    return parts[0]


def test_modules_import_what_their_rooms_may() -> None:
    violations = []
    for module in sorted(MODULES):
        room = room_of(module)
        if room not in MAY_IMPORT:
            violations.append(f"{module}: '{room}' is not in the table of this test")
            continue
        for other in sorted(graph()[module]):
            target = room_of(other)
            if target != room and target not in MAY_IMPORT[room]:
                violations.append(f"{module} imports {other}, but {room} may not know {target}")
    assert not violations, "\n".join(violations)


def test_every_room_of_the_table_is_there() -> None:
    assert {room_of(module) for module in MODULES} == set(MAY_IMPORT)


def test_internals_stay_in_their_room() -> None:
    for module, others in graph().items():
        for other in others:
            private = [part for part in other.split(".")[1:] if part.startswith("_")]
            assert not private or room_of(module).split(".")[0] == room_of(other).split(".")[0], (
                f"{module} imports the internals {other}"
            )


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected groups of more than one module (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in graph[module]:
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            start = stack.index(module)
            if len(stack) - start > 1:
                groups.append(sorted(stack[start:]))
            del stack[start:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return groups


def test_no_circle_of_imports() -> None:
    reached = {name: set() if name in CYCLES else others for name, others in graph().items()}
    assert cycles(reached) == []


def test_plugins_do_not_know_each_other() -> None:
    for path in sorted((ROOT / "plugins").glob("[a-z]*.py")):
        for module in imports(path):
            parts = module.split(".")
            if parts[:2] == ["clframe", "plugins"] and len(parts) > 2:
                assert parts[2].startswith("_") or parts[2] == path.stem, f"{path.name}: {module}"


def test_contributed_plugins_use_only_the_public_interface() -> None:
    public = {
        "clframe",
        "clframe.data.augment",
        "clframe.data.buffer",
        "clframe.data.class_buffer",
        "clframe.utils.setting_checks",
        "clframe.testing",
        "clframe.core.losses",
        "clframe.core.protocols",
        "clframe.models.tuning",
        "clframe.models.tuning.adapter",
        "clframe.models.tuning.frozen",
        "clframe.models.tuning.inserts",
        "clframe.models.tuning.lora",
        "clframe.models.tuning.slots",
        "clframe.models.tuning.vit",
    }
    for path in sorted((ROOT.parent / "plugins_contrib").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module is not None and module.split(".")[0] == "clframe":
                assert module in public, f"{path.name} imports {module}"


def test_the_root_and_the_sizes_show_the_plan() -> None:
    in_root = sorted(path.name for path in ROOT.glob("*.py"))
    assert len(in_root) <= 8, in_root
    for path in ROOT.rglob("*.py"):
        lines = len(path.read_text().splitlines())
        assert lines <= 500, f"{path.relative_to(ROOT)} has {lines} lines"
    files = [*(ROOT / "core").rglob("*.py"), *(ROOT / "training").rglob("*.py")]
    for path in [*files, *(ROOT / name for name in ("run.py", "api.py", "build.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= 60, f"{path.relative_to(ROOT)}: {node.name} has {length} lines"


def written_attributes(tree: ast.AST) -> set[str]:
    """The attributes that assignments write, such as ``learner.optimizer``."""
    written: set[str] = set()
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if isinstance(one, ast.Attribute):
                    written.add(ast.unparse(one).removeprefix("self.").removeprefix("built."))
    return written


def test_nobody_else_writes_to_learner_run_folder_and_engine() -> None:
    """They have a method for everything that others may set."""
    root = ROOT.parent
    written = {
        f"{path.relative_to(root)}: {name}"
        for base in (ROOT, root / "plugins_contrib")
        for path in sorted(base.rglob("*.py"))
        if path.parent != ROOT / "attached"  # which has a learner and an engine of its own
        for name in written_attributes(ast.parse(path.read_text()))
        if re.fullmatch(r"(learner|folder|engine|learner\.model)\.\w+", name)
    }
    assert not written, "\n".join(sorted(written))


def test_importing_clframe_is_light() -> None:
    code = (
        "import sys, clframe;"
        "sys.exit(bool({'torch', 'lightning', 'hydra', 'mujoco', 'wandb'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_base_name_says_what_is_inside() -> None:
    """The modules that share a name share a contract: a package, or the streams of a package."""
    names = Counter(path.stem for path in ROOT.rglob("*.py"))
    often = {name: count for name, count in names.items() if count > 2}
    assert set(often) <= {"__init__", "stream"}, often
