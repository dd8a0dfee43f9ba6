"""Runs every strategy of the list in a small size and verifies an experience of each run.

    python benchmarks/verify_strategies.py [NAME ...] [--out FOLDER]

A run is `clframe fit strategy=NAME checkpoint.every_experience=true` on two experiences of the
embedded MNIST; then `clframe verify` learns its second experience again from the state before it.
A strategy that works in another scenario or on a transformer only is run there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from pathlib import Path

from clframe.cli.main import main as clframe
from clframe.core.registry import discover
from clframe.reproduce.verify import verify
from clframe.strategies import DEFAULT_PLUGINS, known_strategies

SMALL = [
    *("stream=split_mnist", "n_experiences=2", "max_epochs=1", "logger=none"),
    *("checkpoint.every_experience=true", "trainer.batch_size=128", "progress=false"),
]
# Further needs of some strategies: measurements during training, blocks of the small transformer.
MORE = {
    "best_checkpoint": ["evaluation.check_val_every_n_epoch=1"],
    "coda_prompt": ["strategy.coda_prompt.blocks=[0,1]"],
    "dualprompt": ["strategy.dualprompt.general=[0]", "strategy.dualprompt.expert=[1,2]"],
}
MODELS: tuple[list[str], ...] = ([], ["model=vit_tiny", "model.weights=fashion"], ["model=frozen"])
SCENARIOS = ("class", "task", "domain")


def run(name: str, folder: Path) -> str | None:
    """Make a run of a strategy where it works; None, or why it works nowhere."""
    reason = ""
    for number, (model, scenario) in enumerate((m, s) for m in MODELS for s in SCENARIOS):
        said = io.StringIO()
        words = [f"strategy={name}", f"scenario={scenario}", *model, *MORE.get(name, [])]
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = clframe(["fit", *SMALL, *words, f"run_dir={folder}"])
        if code == 0:
            return None
        if number == 0:
            reason = said.getvalue().strip().splitlines()[-1]
    return reason


def main() -> None:
    """Print a line for each strategy, and how many were verified."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    names = given.names or [s for s in known_strategies(discover()) if s not in DEFAULT_PLUGINS]
    good: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            folder = (given.out or Path(temporary)) / name
            started = time.process_time()
            reason = run(name, folder)
            if reason is not None:
                print(f"{name:<24} not run: {reason}", flush=True)
                continue
            found = verify(folder)
            bad = [finding for finding in found if not finding.good]
            words = f"NOT verified: {bad[0].what}: {bad[0].words}" if bad else found[-1].words
            if not bad:
                good.append(name)
            print(f"{name:<24} {words} ({time.process_time() - started:.1f} s CPU)", flush=True)
    print(f"{len(good)} of {len(names)} verified")


if __name__ == "__main__":
    main()
