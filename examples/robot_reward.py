"""The same robot by reward: soft actor-critic, with a replay memory over tasks.

python examples/robot_reward.py
"""

from __future__ import annotations

import clframe


def main(steps: int = 1500, start_steps: int = 300, eval_episodes: int = 10) -> clframe.Result:
    """Learn two tasks, with a budget of decisions for each."""
    result = clframe.fit(
        {
            "name": "point_robot",
            "n_tasks": 2,
            "eval_episodes": eval_episodes,
            "num_workers": 0,
        },
        "replay",
        learner={"name": "sac", "steps": steps, "start_steps": start_steps},
        run_dir=False,
        progress=False,
    )
    print(result)
    return result


if __name__ == "__main__":
    main()
