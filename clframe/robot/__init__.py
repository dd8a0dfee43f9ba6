"""Learning by imitation, for every stream whose tasks are robot environments.

A `RobotTask` (`task`) names an environment, its expert and its instruction. `demonstrations` are
HDF5 files in robomimic's and LIBERO's layout, made from the experts (`collect`); `windows` turns
them into training data; `learner` clones them; `evaluation` measures the success rate; `stream`
puts tasks together to a stream. Nothing here imports MuJoCo, Gymnasium or h5py before it is used.
"""

from __future__ import annotations
