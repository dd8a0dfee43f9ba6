"""No phrase that gives a stilted sentence away, in pages, docstrings, comments and messages."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from scripts import prose

PHRASES = {
    r"(which|are|is) said\b": "write 'with a warning' or name the error",
    r"\bis told\b": "say who does what",
    r"\bin a sentence\b": "name the error or the exit code",
    r"\banew\b": "again",
    r"\b(at )?the very\b": "leave it out",
    r"\bso many\b": "n",
    r"\bsuch a one\b": "name it",
    r"\b(is|are) of no\b|\bof no (plugin|stream|run|method|use|task)\b": "not of any, or rephrase",
    r"\bwho (has|wants|needs)\b": "if you have",
    r"\bwhat is left\b": "the rest, the remaining ...",
    r"\b(can|is to|are to) be had\b": "is available",
    r"\bwhatever it is\b": "any",
    r"\bwhere (that can be|there is one|there are|there is none)\b": "if there is one",
    r"\bby lot\b": "at random",
    r"\bbeside\b": "besides, also, next to",
    r"\bnothing but\b": "only",
    r"\b(has|have) not(?=[,.;:)]|$)": "does not have it",
    r"\b(is|are) wanted\b": "is needed",
    r"\bshall\b": "must, or the present tense",
    r"\bwhose nature\b": "rephrase",
    r"\bas it stands\b": "as it is now",
    r"\bgo(es)? without\b": "skips",
    r"\btakes? for itself\b": "uses",
    r"\bleads? to nothing\b": "cannot be loaded",
    r"\bit stands in\b": "it is in",
    r"\bpictures?\b": "image",
    r"\bfilms?\b": "video",
    r"\bsentences? of ours\b": "message",
}
"""Regular expressions and what to write instead."""

ALLOWED = {
    "film_resnet": "FiLM layers",
    "FiLM": "a method's name",
    "augment, film": "the module film_resnet in a list",
    "who has the data": "CONTRIBUTING's examples of what not to write",
    'something "is said"': "the same",
    "beside: The pair": "the name of an attribute",
}
"""Texts that may hold a phrase, and why; at most ten."""


def test_no_stilted_phrase() -> None:
    """Search all prose, without code spans and links, for the phrases."""
    found = []
    for path in prose.files():
        for text in prose.texts(path):
            words = prose.plain(text.text)
            if any(allowed in words for allowed in ALLOWED):
                continue
            for phrase, instead in PHRASES.items():
                match = re.search(phrase, words, re.IGNORECASE)
                if match:
                    place = f"{path.relative_to(prose.ROOT)}:{text.line}"
                    found.append(f"{place} [{text.kind}] '{match[0]}' ({instead}): {words[:90]}")
    assert not found, f"{len(found)} stilted phrases:\n" + "\n".join(found)
    assert len(ALLOWED) <= 10


def test_headless_clauses_are_rare() -> None:
    """A page says 'that of' or 'those of' at most once."""
    counts: Counter[Path] = Counter()
    for path in prose.files(names=prose.PAGES):
        if path.suffix == ".md":
            for text in prose.texts(path):
                counts[path] += len(re.findall(r"\b(that|those) of\b", prose.plain(text.text)))
    often = {str(path.relative_to(prose.ROOT)): n for path, n in counts.items() if n > 1}
    assert not often
