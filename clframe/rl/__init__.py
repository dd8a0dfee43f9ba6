"""Learning by reward, for every stream whose tasks are robot environments.

An experience is an environment and a budget of decisions. `environment` checks what an environment
says. For soft actor-critic (`sac`), `transitions` keeps what happened, and `interaction` acts,
counts and hands batches to core's training loop, in which plugins act on the policy as on any other
model. For proximal policy optimisation (`ppo`), `rollout` does so with several environments at once
(`vector`, and `slots` in worker processes). See docs/rl.md.
"""

from __future__ import annotations
