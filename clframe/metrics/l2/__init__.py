"""Lifelong-learning metrics of New et al., 2022: from l2logger logs to numbers.

>>> from clframe.metrics import l2
>>> table = {
...     "block_num": [0, 1, 1, 2],
...     "exp_num": [0, 1, 2, 3],
...     "block_type": ["test", "train", "train", "test"],
...     "task_name": ["digits_1"] * 4,
...     "accuracy": [0.1, 0.4, 0.8, 0.9],
... }
>>> l2.evaluate(table, normalization_method="none", clamp_outliers=False).lifetime["avg_eval_perf"]
0.5
"""

from clframe.metrics.l2.evaluate import evaluate
from clframe.metrics.l2.lifetimes import LifetimesResult, evaluate_lifetimes
from clframe.metrics.l2.log_writer import L2LogWriter
from clframe.metrics.l2.profiles import PROFILES, REFERENCE_DEFECTS, Settings, make_settings
from clframe.metrics.l2.result import L2Result

__all__ = [
    "PROFILES",
    "REFERENCE_DEFECTS",
    "L2LogWriter",
    "L2Result",
    "LifetimesResult",
    "Settings",
    "evaluate",
    "evaluate_lifetimes",
    "make_settings",
]
