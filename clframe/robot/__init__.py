"""Imitation learning, for every stream whose tasks are robot environments.

A `RobotTask` (`task`) has an environment, its expert and its instruction. `demonstrations` are
HDF5 files in robomimic's and LIBERO's layout, recorded from the experts (`collect`).
`observation_windows` turns them into training data, `learner` clones them, `evaluation` measures
the success rate, and `stream` combines tasks into a stream. Nothing here imports MuJoCo, Gymnasium
or h5py before it is needed.
"""

from __future__ import annotations
