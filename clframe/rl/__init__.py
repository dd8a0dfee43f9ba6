"""Reinforcement learning, for every stream whose tasks are robot environments.

An experience is an environment and a budget of decisions. `environment` checks the outputs of an
environment. For soft actor-critic (`sac`), `transitions` stores what happened, and `_collector`
acts, counts and yields batches to core's training loop, in which plugins work on the policy as on
any other model. For proximal policy optimisation (`ppo`), `_rollout` does the same with several
environments at once (`vector`, and `env_slots` in worker processes). See docs/rl.md.
"""

from __future__ import annotations
