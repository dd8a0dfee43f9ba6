"""A robot learns four tasks from demonstrations, with and without replay.

python examples/robot_imitation.py
"""

from __future__ import annotations

import tempfile

import clframe


def main(max_steps: int = 300, eval_episodes: int = 10) -> dict[str, float]:
    """Compare naive learning and replay: success in episodes of the simulated point robot."""
    success = {}
    with tempfile.TemporaryDirectory() as folder:  # demonstrations are recorded here
        for strategy in ("naive", "er"):
            result = clframe.fit(
                {"name": "point_robot", "eval_episodes": eval_episodes, "num_workers": 0},
                strategy,
                data_dir=folder,
                max_steps=max_steps,
                run_dir=False,
                progress=False,
            )
            print(result)
            success[strategy] = result.metrics["gem"]["acc"]
    return success


if __name__ == "__main__":
    main()
