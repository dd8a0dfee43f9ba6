"""Your own logger: one JSON line per row, without repeated rows after a resume.

clframe fit plugin_path=examples/own_logger.py logger=jsonl max_epochs=1
python examples/own_logger.py
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import clframe
from clframe import Registry, RunLogger, hookimpl


class JsonLines(RunLogger):
    """Writes each row of numbers as one line of JSON.

    Args:
        path: The file.
    """

    title = "jsonl"
    numbers_only = True  # images do not belong in this file, so no warning is needed

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self.begun = path, 0, False

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append one line."""
        if not self.begun:  # drop the rows that a resumed run logs again
            self.begun = True
            old = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
            self.path.write_text("".join(old[: self.rows]))
        with self.path.open("a") as file:
            file.write(json.dumps({"step": step, **metrics}) + "\n")
        self.rows += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the number of rows, which each checkpoint saves."""
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the rows of the checkpoint."""
        self.rows, self.begun = state["rows"], False


def jsonl(run_dir: Path, file: str = "rows.jsonl") -> JsonLines:
    """One JSON line per row, in the run folder.

    Args:
        run_dir: The run folder, passed by clframe.
        file: The name of the file.
    """
    return JsonLines(run_dir / file)


@hookimpl
def register(registry: Registry) -> None:
    """Register the logger."""
    registry.add("logger", "jsonl", jsonl)


def main(max_epochs: int = 1) -> list[dict[str, float]]:
    """Train with the logger and read its file."""
    result = clframe.fit(
        "split_mnist", logger="jsonl", plugin_path=__file__, max_epochs=max_epochs, progress=False
    )
    rows = [json.loads(line) for line in (result.run_dir / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        if "eval/mean" in row:
            print(f"step {row['step']:>3}: {row['eval/mean']:.3f}")
    return rows


if __name__ == "__main__":
    main()
