"""The one error of this package: a sentence with a place in the text."""

from __future__ import annotations

from clframe.errors import ClframeError


class BDDLError(ClframeError):
    """A task description cannot be used.

    Args:
        sentence: What is wrong and what would be right.
        line: Line of the fault, counted from 1.
        column: Column of the fault, counted from 1 in characters.
        path: The file, when the text came from one.

    Attributes:
        more: Further errors found in the same text, in order of position.

    >>> str(BDDLError("The goal is empty.", 3, 5, path="a.bddl"))
    'a.bddl:3:5: The goal is empty.'
    """

    def __init__(
        self, sentence: str, line: int = 1, column: int = 1, path: str | None = None
    ) -> None:
        self.sentence = sentence
        self.line = line
        self.column = column
        self.path = path
        self.more: tuple[BDDLError, ...] = ()
        super().__init__(sentence, line, column, path)

    def __str__(self) -> str:
        if self.path is None:
            return f"line {self.line}, column {self.column}: {self.sentence}"
        return f"{self.path}:{self.line}:{self.column}: {self.sentence}"


def shown(word: str, limit: int = 60) -> str:
    """Quote a word of the input so that it stays short and printable.

    >>> shown("bowl")
    "'bowl'"
    >>> shown("x" * 100, limit=5)
    "'xxxxx...'"
    """
    shortened = word if len(word) <= limit else word[:limit] + "..."
    return ascii(shortened) if not shortened.isprintable() else f"'{shortened}'"
