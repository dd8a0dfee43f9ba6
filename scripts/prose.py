"""The English of the project: docs, docstrings, comments and messages, to check it or to sample it.

::

    python scripts/prose.py sample --seed 1 > sample.md  # 100 sentences, 60 summaries, 60 messages
    python scripts/prose.py list clframe/core            # every text with its place

``tests/docs/test_phrases.py`` searches the same texts for phrases of stilted sentences.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).parents[1]
CODE = ("clframe", "plugins_contrib", "examples", "benchmarks", "scripts")
PAGES = ("README.md", "CONTRIBUTING.md", "AGENTS.md", "docs", "examples", "benchmarks")
SAMPLE = {"sentence": 100, "summary": 60, "message": 60}

Kind = Literal["docs", "docstring", "comment", "message"]


class Text(NamedTuple):
    """A piece of prose and its place.

    Args:
        kind: docs, docstring, comment or message.
        path: Its file.
        line: Its first line.
        end: Its last line.
        text: What it says, with ``{}`` for each value in an f-string.
        owner: The function or class that a docstring belongs to; empty for others.
    """

    kind: Kind
    path: Path
    line: int
    end: int
    text: str
    owner: str = ""


def files(root: Path = ROOT, names: Sequence[str] = (*PAGES, *CODE)) -> list[Path]:
    """Return the pages and modules below these names, sorted."""
    found: set[Path] = set()
    for name in names:
        path = root / name
        if path.is_file():
            found.add(path)
        else:
            found |= {*path.rglob("*.md"), *path.rglob("*.py")}
    return sorted(found)


def texts(path: Path) -> list[Text]:
    """Return all prose of a page or module in order."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return list(_paragraphs(path, content))
    tree = ast.parse(content)
    docstrings = list(_docstrings(path, tree))
    lines = {text.line for text in docstrings}
    messages = [text for text in _messages(path, tree) if text.line not in lines]
    return sorted([*docstrings, *messages, *_comments(path, content)], key=lambda text: text.line)


def plain(text: str) -> str:
    """Return a text without code spans, links and markup, with single spaces."""
    text = re.sub(r"``[^`]*``|`[^`]*`|:\w+:`[^`]*`", "X", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[*_|#>]+", " ", text).split())


def sentences(text: str) -> list[str]:
    """Split a paragraph or a table row into sentences of at least four words."""
    cells = text.strip().strip("|").split(" | ") if text.lstrip().startswith("|") else [text]
    parts = [
        part
        for cell in cells
        for part in re.split(r"(?<=[.!?:])\s+(?=[A-Z`\[*])", " ".join(cell.split()))
    ]
    return [part for part in parts if len(re.findall(r"\b[A-Za-z]{2,}\b", plain(part))) >= 4]


# ---------------------------------------------------------------- pages


def _paragraphs(path: Path, content: str) -> Iterator[Text]:
    """The paragraphs, list items, headings and table cells of a page, without its code blocks."""
    block: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate([*content.splitlines(), ""], start=1):
        fence = line.lstrip().startswith("```")
        separate = not line.strip() or re.match(r"\s*([-*] |\d+\. |#|\|)", line) is not None
        if block and (fence or separate):
            yield Text("docs", path, start, number - 1, "\n".join(block))
            block = []
        if fence:
            fenced = not fenced
        elif not fenced and line.strip() and not re.fullmatch(r"[\s|:-]+", line):
            if not block:
                start = number
            block.append(line)


# ---------------------------------------------------------------- modules


def _docstrings(path: Path, tree: ast.Module) -> Iterator[Text]:
    """Docstrings of modules, classes and functions, and those below attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        owner = getattr(node, "name", "module")
        for before, statement in zip([None, *body], body, strict=False):
            first = before is None and not isinstance(node, ast.If | ast.For | ast.With | ast.Try)
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
                and (first or isinstance(before, ast.Assign | ast.AnnAssign))
            ):
                name = owner if first else f"{owner}, attribute"
                end = statement.end_lineno or statement.lineno
                yield Text("docstring", path, statement.lineno, end, statement.value.value, name)


def _messages(path: Path, tree: ast.Module) -> Iterator[Text]:
    """String literals that read as prose: at least three words, no docstrings."""
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if node in inside or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                inside.add(part)
                if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                    inside |= set(ast.walk(part.format_spec))
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node.value, str):
            text = node.value
        else:
            continue
        if len(re.findall(r"\b[a-z]{2,}\b", text)) >= 3 and " " in text.strip():
            yield Text("message", path, node.lineno, node.end_lineno or node.lineno, text)


def _comments(path: Path, content: str) -> Iterator[Text]:
    """Comments, those on consecutive lines as one; no directives of tools."""
    block: list[tuple[int, int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = token.string.lstrip("#").strip()
        if re.match(r"noqa|type:|mypy:|fmt:|pragma|!|-{4,}", text) or not text:
            continue
        (line, column), alone = token.start, token.line.lstrip().startswith("#")
        if block and alone and block[-1][:2] == (line - 1, column):
            block.append((line, column, text))
            continue
        yield from _block(path, block)
        block = [(line, column, text)] if alone else []
        if not alone:
            yield Text("comment", path, line, line, text)
    yield from _block(path, block)


def _block(path: Path, block: Sequence[tuple[int, int, str]]) -> Iterator[Text]:
    if block:
        text = "\n".join(text for _, _, text in block)
        yield Text("comment", path, block[0][0], block[-1][0], text)


# ---------------------------------------------------------------- sample


def population(root: Path = ROOT) -> dict[str, list[tuple[str, str]]]:
    """Return all sentences of docs, docstring summaries and messages with their places."""
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in SAMPLE}
    for path in files(root):
        for text in texts(path):
            place = f"{path.relative_to(root)}:{text.line}"
            product = place.startswith(("clframe/", "plugins_contrib/"))
            if text.kind == "docs":
                found["sentence"] += [(place, sentence) for sentence in sentences(text.text)]
            elif text.kind == "docstring" and product and "attribute" not in text.owner:
                found["summary"].append((place, text.text.strip().split("\n")[0]))
            elif text.kind == "message" and product:
                found["message"].append((place, " ".join(text.text.split())))
    return found


def sample(seed: int, root: Path = ROOT) -> str:
    """Return a page with a random sample of each kind, to be judged by a reader."""
    lines = [f"# Sample of the English, seed {seed}"]
    for name, texts_of_kind in population(root).items():
        lines += ["", f"## {name} ({len(texts_of_kind)} in all)", ""]
        chosen = random.Random(f"{seed} {name}").sample(texts_of_kind, SAMPLE[name])
        lines += [f"{n}. `{place}` {text}" for n, (place, text) in enumerate(chosen, start=1)]
    return "\n".join(lines)


def main() -> None:
    """Print a sample, or all texts below a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    sampled = commands.add_parser("sample", help="print a random sample of each kind")
    sampled.add_argument("--seed", type=int, default=0)
    listed = commands.add_parser("list", help="print every text with its place")
    listed.add_argument("names", nargs="+", help="files or folders, from the root of the project")
    arguments = parser.parse_args()
    if arguments.command == "sample":
        print(sample(arguments.seed))
        return
    for path in files(ROOT, arguments.names):
        for text in texts(path):
            place = f"{path.relative_to(ROOT)}:{text.line}"
            print(f"{place} [{text.kind}{' of ' + text.owner if text.owner else ''}] {text.text}")


if __name__ == "__main__":
    main()
