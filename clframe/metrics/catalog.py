"""What every metric is called, which direction is better and in which range it lies.

Reports, tables and `clframe list metrics` read this; docs/metrics.md must name every entry.
Ranges assume a measure in 0..1, except that L2 metrics use performance scaled to 1..101.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricInfo:
    """One metric: its full name, what it says, and how to read it."""

    name: str
    meaning: str
    higher_is_better: bool | None  # None: neither, it describes
    low: float | None
    high: float | None

    @property
    def direction(self) -> str:
        """Return "higher", "lower" or "-"."""
        return {True: "higher", False: "lower", None: "-"}[self.higher_is_better]


def _entries() -> list[MetricInfo]:
    up, down = True, False
    return [
        MetricInfo(
            "openloris.accuracy", "mean over tasks learned so far, after every row", up, 0, 1
        ),
        MetricInfo("openloris.bwt", "mean over tasks learned earlier, a plain average", up, 0, 1),
        MetricInfo("openloris.fwt", "mean over tasks still to come, a plain average", up, 0, 1),
        MetricInfo("openloris.overall", "mean of the whole matrix", up, 0, 1),
        MetricInfo("gem.acc", "mean over tasks after the last row", up, 0, 1),
        MetricInfo("gem.bwt", "final value minus value when learned", up, -1, 1),
        MetricInfo("gem.fwt", "value just before learning minus untrained value", up, -1, 1),
        MetricInfo("forgetting.best_minus_last", "best earlier value minus final", down, -1, 1),
        MetricInfo("forgetting.first_minus_last", "value when learned minus final", down, -1, 1),
        MetricInfo("learning_accuracy.learning_accuracy", "value when just learned", up, 0, 1),
        MetricInfo(
            "intransigence.intransigence", "joint reference minus value learned", down, -1, 1
        ),
        MetricInfo("stability_plasticity.stability", "final value of earlier tasks", up, 0, 1),
        MetricInfo("stability_plasticity.plasticity", "value when just learned", up, 0, 1),
        MetricInfo("stability_plasticity.tradeoff", "harmonic mean of the two", up, 0, 1),
        MetricInfo("average_over_run.average_over_run", "mean over rows of tasks so far", up, 0, 1),
        MetricInfo("libero.fwt", "area under the held learning curve", up, 0, 1),
        MetricInfo("libero.nbt", "success lost while learning later tasks", down, -1, 1),
        MetricInfo("libero.auc", "success over learning and all later tasks", up, 0, 1),
        MetricInfo("continual_world.performance", "mean success at the end", up, 0, 1),
        MetricInfo("continual_world.forgetting", "success when learned minus final", down, -1, 1),
        MetricInfo(
            "continual_world.forward_transfer", "area gained on single-task runs", up, None, 1
        ),
        MetricInfo("l2.perf_recovery", "minus the slope of recovery times", up, None, None),
        MetricInfo("l2.avg_train_perf", "mean performance while learning", up, 1, 101),
        MetricInfo("l2.avg_eval_perf", "mean performance in evaluations", up, 1, 101),
        MetricInfo("l2.perf_maintenance_mrlep", "change since the last reference", up, -100, 100),
        MetricInfo("l2.perf_maintenance_mrtlp", "change since the end of learning", up, -100, 100),
        MetricInfo("l2.forward_transfer_contrast", "help to tasks not yet learned", up, -1, 1),
        MetricInfo("l2.backward_transfer_contrast", "help to tasks learned before", up, -1, 1),
        MetricInfo("l2.forward_transfer_ratio", "the same as after / before", up, 0, None),
        MetricInfo("l2.backward_transfer_ratio", "the same as after / before", up, 0, None),
        MetricInfo("l2.ste_rel_perf", "performance over that of experts, 1 = equal", up, 0, None),
        MetricInfo("l2.sample_efficiency", "saturation and speed over experts'", up, 0, None),
        MetricInfo("l2.cumulative_gain", "rise of the trend over the lifetime", up, None, None),
        MetricInfo("l2.learn_burn", "learning rate after a change over lifetime's", up, None, None),
        MetricInfo("l2.droop", "fall below the earlier level after a change", down, 0, 100),
        MetricInfo("l2.recovery_rate", "performance regained per experience", up, 0, 100),
    ]


CATALOG: dict[str, MetricInfo] = {entry.name: entry for entry in _entries()}
