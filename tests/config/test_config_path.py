"""From the command line to a ``RunConfig`` there is one path, and it stays short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "measure_config_path.py"


def test_few_files_are_between_the_command_line_and_the_description_of_a_run() -> None:
    words = ["strategy=ewc+replay", "lr=0.1", "trainer.max_epochs=2", "max_steps=3"]
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert counted["number_of_files"] <= 9, counted
    assert counted["lines_of_files"] <= 2000, counted
