"""Metadata of metrics, declared next to the functions that compute them.

``@metric`` declares the names of the numbers that a function returns, which direction is better and
so on. The catalog, the registered families, reports, the console and docs/metrics.md are derived
from this metadata, so a metric is added in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from clframe.core.results import Result

F = TypeVar("F", bound=Callable[..., Any])
Arguments = Callable[["Result"], "dict[str, Any] | None"]

_ATTRIBUTE = "clframe_metric_family"
_TEXTS = ("formula", "meaning", "paper", "unit")


@dataclass(frozen=True)
class MetricInfo:
    """A metric: its name, its meaning, and how to read it.

    Args:
        name: The key under which its function returns it; in the catalog the full name with the
            family first, such as ``gem.bwt``.
        formula: In the symbols of docs/metrics.md.
        meaning: One-line description.
        higher_is_better: None if it only describes.
        low: The lowest possible value; None if there is no limit.
        high: The highest possible value.
        paper: The paper that defines it.
        headline: Whether a comparison shows it by default.
        words: Description next to it in the console after a run; empty to leave it out there.
        unit: Unit, such as ``s``; empty for a fraction or a plain number.

    Example:
        >>> info = MetricInfo(
        ...     "errors.most", formula="max over j of 1 - R[T, j]", higher_is_better=False, low=0
        ... )
        >>> info.direction, info.range
        ('lower', '0..')
    """

    name: str
    formula: str = ""
    meaning: str = ""
    higher_is_better: bool | None = True
    low: float | None = None
    high: float | None = None
    paper: str = ""
    headline: bool = False
    words: str = ""
    unit: str = ""

    @property
    def direction(self) -> str:
        """The better direction: "higher", "lower" or "-"."""
        return {True: "higher", False: "lower", None: "-"}[self.higher_is_better]

    @property
    def range(self) -> str:
        """The limits, such as "0..1", "0.." or "any"."""
        low, high = ("" if limit is None else f"{limit:g}" for limit in (self.low, self.high))
        return f"{low}..{high}" if low or high else "any"

    def to_json(self) -> dict[str, Any]:
        """Return the entry in results.json of a metric that clframe does not define."""
        texts = {key: getattr(self, key) for key in _TEXTS}
        return {
            "higher_is_better": self.higher_is_better,
            **{key: text for key, text in texts.items() if text},
        }

    @classmethod
    def from_json(cls, name: str, facts: Mapping[str, Any]) -> MetricInfo:
        """Read a metric's entry in results.json; unexpected values are ignored."""
        better = facts.get("higher_is_better", True)
        texts = {key: facts[key] for key in _TEXTS if isinstance(facts.get(key), str)}
        direction = better if isinstance(better, bool | None) else True
        return cls(name, higher_is_better=direction, **texts)


@dataclass(frozen=True)
class Family:
    """The metrics that a single function computes.

    Args:
        name: Prefix of their full names.
        function: Computes them.
        metrics: One entry per number; their names without the family.
        summary: One line for ``clframe list metrics``.
        per: What lists that go with the metrics (``*_k``) have a value for.
        arguments: Returns the function's arguments for a run, or None if the metrics are not
            defined for that run; without it they are not computed for runs.
    """

    name: str
    function: Callable[..., Any]
    metrics: tuple[MetricInfo, ...]
    summary: str = ""
    per: Literal["task", "experience"] = "task"
    arguments: Arguments | None = None

    def __call__(self, result: Result) -> dict[str, Any] | None:
        """Return the family's numbers for a run, or None if they are not defined for it."""
        arguments = None if self.arguments is None else self.arguments(result)
        return None if arguments is None else dict(self.function(**arguments))

    def catalog(self, name: str = "") -> dict[str, MetricInfo]:
        """Return the metadata by full name.

        Args:
            name: The name the family was registered under, if it is another.
        """
        full = (replace(info, name=f"{name or self.name}.{info.name}") for info in self.metrics)
        return {info.name: info for info in full}


def metric(
    *metrics: MetricInfo,
    paper: str = "",
    family: str = "",
    summary: str = "",
    per: Literal["task", "experience"] = "task",
    arguments: Arguments | None = None,
) -> Callable[[F], F]:
    """Declare which metrics a function returns.

    >>> @metric(MetricInfo("loss", higher_is_better=False))
    ... def final(result):
    ...     return {"loss": 0.25}
    >>> family_of(final).catalog()["final.loss"].direction
    'lower'

    Args:
        metrics: One entry per number.
        paper: The paper that defines them.
        family: Prefix of their full names; the function's name if empty.
        summary: One line for ``clframe list metrics``.
        per: What lists that go with the metrics have a value for.
        arguments: For a function of arrays: returns its arguments for a run.
    """
    facts = tuple(replace(info, paper=info.paper or paper) for info in metrics)

    def mark(function: F) -> F:
        name = family or function.__name__
        marked = Family(name, function, facts, summary, per, arguments)
        setattr(function, _ATTRIBUTE, marked)
        return function

    return mark


def family_of(function: object) -> Family | None:
    """Return what ``@metric`` declares for a function, or None."""
    family: Family | None = getattr(function, _ATTRIBUTE, None)
    return family


def families_in(module: ModuleType) -> list[Family]:
    """Return the families whose functions a module defines, in order."""
    values = [v for v in vars(module).values() if getattr(v, "__module__", "") == module.__name__]
    return [family for family in map(family_of, values) if family is not None]
