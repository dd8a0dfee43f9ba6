"""BDDL under its public name: ``clframe.bddl.parse`` and what belongs to it.

The language is in :mod:`clframe.worlds.bddl`, which this module re-exports.
"""

from clframe.worlds.bddl import *  # noqa: F403
from clframe.worlds.bddl import __all__ as __all__
