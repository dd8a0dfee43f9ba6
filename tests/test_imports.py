"""What may import what, read from the syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "clframe"
LAYERS = (
    "streams",
    "plugins",
    "models",
    "metrics",
    "bddl",
    "loggers",
    "render",
    "report",
    "robot",
    "strategies",
    "sweep",
)

# The layers of the package that a layer may import besides itself and core.
ALLOWED: dict[str, set[str]] = {
    # Robot streams take pictures of what task files describe, and are learned by imitation.
    "streams": {"render", "bddl", "robot"},
    # Public functions and modules, never their internals.
    "plugins": {"metrics", "models", "robot"},
    "models": set(),
    "metrics": {"bddl"},  # BEHAVIOR's success score is the goal's own
    "bddl": set(),
    "loggers": set(),
    "render": set(),
    "report": {"metrics"},  # which direction of a metric is better
    "robot": set(),
    "strategies": set(),
    "sweep": {"report"},  # the table at its end
}
# A picture of the matrix is drawn by the report; the import is inside the function.
EXCEPTIONS = {("plugins/builtin/logging.py", "report")}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "clframe" and len(parts) > 1 and parts[1] in LAYERS else None


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_do_not_know_each_other(layer: str) -> None:
    for path in sorted((ROOT / layer).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        for module in imports(path):
            other = layer_of(module)
            if other is None or other == layer or (place, other) in EXCEPTIONS:
                continue
            assert other in ALLOWED[layer], f"{place} imports {module}"
            private = [part for part in module.split(".")[2:] if part.startswith("_")]
            assert not private, f"{place} imports the internals {module}"


def test_plugins_do_not_know_each_other() -> None:
    for path in sorted((ROOT / "plugins").glob("[a-z]*.py")):
        for module in imports(path):
            parts = module.split(".")
            if parts[:2] == ["clframe", "plugins"] and len(parts) > 2:
                assert parts[2].startswith("_") or parts[2] == path.stem, f"{path.name}: {module}"


def test_core_imports_no_layer_but_where_names_become_objects() -> None:
    builders = {"api.py", "testing.py"}
    for path in sorted(ROOT.glob("*.py")):
        if path.name in builders | {"__init__.py"}:
            continue
        for module in imports(path):
            assert layer_of(module) is None, f"{path.name} imports {module}"


def test_contributed_plugins_use_only_the_public_interface() -> None:
    public = {
        "clframe",
        "clframe.data.buffer",
        "clframe.data.herding",
        "clframe.utils.settings",
        "clframe.testing",
        "clframe.core.losses",
    }
    for path in sorted((ROOT.parent / "plugins_contrib").glob("*.py")):
        for module in imports(path):
            if module.split(".")[0] == "clframe":
                assert module in public or module.rsplit(".", 1)[0] in public, f"{path}: {module}"


def test_importing_clframe_is_light() -> None:
    code = (
        "import sys, clframe;"
        "sys.exit(bool({'torch', 'lightning', 'hydra', 'mujoco', 'wandb'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
