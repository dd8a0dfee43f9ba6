"""Learning by reward, for every stream whose tasks are robot environments.

An experience is an environment and a budget of decisions. `environment` checks what an environment
says; `transitions` keeps what happened; `interaction` acts, counts and hands batches to core's
training loop, in which plugins act on the policy as on any other model; `sac` is soft actor-critic
from top to bottom. See docs/rl.md.
"""

from __future__ import annotations
