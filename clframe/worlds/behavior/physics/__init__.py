"""BEHAVIOR's activities with physics: a scale model of the household on a table.

`fitting` decides which body every thing gets (`bodies`, `furniture`) and refuses what cannot be
had; `layout` finds it a place; `table` is the MuJoCo world with its start states; `relations` says
which literals hold there; `hand` does the primitives by motions of the tabletop's expert; `env` is
the Gymnasium environment.
"""
