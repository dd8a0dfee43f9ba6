"""The camera stands alone: usable for any stream, and free to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import clframe.worlds.render

FOLDER = Path(clframe.worlds.render.__file__).parent
ALLOWED = {
    "clframe.errors",
    "clframe.utils.setting_checks",
    "clframe.worlds.render",
    "numpy",
    "mujoco",
}


def test_render_knows_nothing_of_the_rest() -> None:
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                allowed = any(name == one or name.startswith(f"{one}.") for one in ALLOWED)
                standard = name.split(".")[0] in sys.stdlib_module_names
                assert allowed or standard, f"{path.name} imports {name}"


def test_importing_the_camera_loads_no_mujoco() -> None:
    code = (
        "import sys, clframe.worlds.render; sys.exit(bool({'mujoco', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
