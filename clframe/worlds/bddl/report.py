"""Collects what is wrong with a text, so that one reading finds all of it."""

from __future__ import annotations

from collections.abc import Iterable

from clframe.errors import nearest
from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.limits import Leniency
from clframe.worlds.bddl.source import Source

# Enough to repair a file by; a text that is junk throughout would otherwise fill the memory.
_MOST_ERRORS = 50
_MOST_NAMES_COMPARED = 500


class Report:
    """Errors and warnings about one source, with the leniencies in force."""

    def __init__(self, source: Source, lenient: Leniency) -> None:
        self.source = source
        self.lenient = lenient
        self.errors: list[BDDLError] = []
        self.warnings: list[BDDLError] = []

    def error(self, sentence: str, offset: int) -> None:
        """Note a fault and continue reading, unless there are too many already."""
        self.errors.append(self.source.error(sentence, offset))
        if len(self.errors) >= _MOST_ERRORS:
            self.finish()

    def quirk(self, leniency: Leniency, sentence: str, offset: int) -> None:
        """Note a fault that a named leniency turns into a warning."""
        if leniency in self.lenient:
            self.warnings.append(self.source.error(sentence, offset))
        else:
            self.error(f"{sentence} (leniency {leniency.name} lets it through)", offset)

    def hint(self, name: str, known: Iterable[str]) -> str:
        """Name the nearest known name, where looking for it is cheap."""
        names = list(known)
        if len(name) > 60 or len(names) > _MOST_NAMES_COMPARED or len(self.errors) > 10:
            return "declare it or correct its spelling"
        text = nearest(name, names)
        return text if len(text) <= 200 else text[:200].rsplit(",", 1)[0] + ", ..."

    def finish(self) -> None:
        """Raise the first error in the text, which carries the others."""
        if self.errors:
            ordered = sorted(self.errors, key=lambda error: (error.line, error.column))
            ordered[0].more = tuple(ordered[1:])
            raise ordered[0]
