"""All metrics of clframe by full name, collected from the metadata of their functions.

Reports, tables and the registry read this. Ranges assume a measure in 0..1, except that L2 metrics
use performance scaled to 1..101.
"""

from __future__ import annotations

from clframe.metrics import (
    accuracy_transfer,
    continual_metrics,
    continual_world_metrics,
    libero_metrics,
    measured_metrics,
    robustness_metrics,
)
from clframe.metrics.info import Family, MetricInfo, families_in
from clframe.metrics.l2 import (
    experts,
    maintenance,
    regime_metrics,
    task_metrics,
    transfer,
    trends,
)

_MODULES = (
    accuracy_transfer,
    libero_metrics,
    continual_world_metrics,
    robustness_metrics,
    continual_metrics,
    measured_metrics,
    *(task_metrics, maintenance, transfer, experts, trends, regime_metrics),
)

FAMILIES: tuple[Family, ...] = tuple(f for module in _MODULES for f in families_in(module))
CATALOG: dict[str, MetricInfo] = {
    name: info for family in FAMILIES for name, info in family.catalog().items()
}
