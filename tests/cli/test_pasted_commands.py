"""Every command line of the pages and of the helps works when it is pasted into a shell."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clframe.cli import commands
from clframe.cli.parser import Parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELLS = [shell for shell in ("bash", "zsh") if shutil.which(shell)]
QUOTED = re.compile(r"""'[^']*'|"[^"]*"|\\.""")
READ_BY_A_SHELL = re.compile(r"[\[\](){}*?!#|&;<>`]")


def parsers() -> Iterator[Parser]:
    for command in commands.BUILT_IN:
        parser = command.parser()
        assert parser is not None
        yield parser
        yield from parser.subcommands.values()


def of_pages() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M)
        lines = [line for block in blocks for line in block.splitlines()]
        inline = re.findall(
            r"(?<!`)`([^`]+)`(?!`)", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
        )
        for line in [*lines, *(" ".join(code.split()) for code in inline)]:
            line = line.removeprefix("$ ")
            if re.match(r"(\w+=\S* )?(srun |torchrun .*-m )?clframe( |$)", line):
                yield page.name, line


def of_helps() -> Iterator[tuple[str, str]]:
    for parser in parsers():
        for line, _ in parser.examples:
            yield parser.prog, line
    for line in commands.overview().splitlines():
        if line.startswith("  clframe "):
            yield "clframe", re.split(r"  +", line.strip())[0]


LINES = sorted({*of_pages(), *of_helps()})


def test_there_are_lines_of_both() -> None:
    assert len(list(of_pages())) > 50
    assert len(list(of_helps())) > 40


@pytest.mark.parametrize(("source", "line"), LINES, ids=[line[:60] for _, line in LINES])
def test_nothing_in_a_line_is_read_by_the_shell(source: str, line: str) -> None:
    bare = QUOTED.sub("", line)
    into_a_file = bare if source != "clframe completion" else re.sub(r" >>? .*", "", bare)
    assert not READ_BY_A_SHELL.search(into_a_file), f"{source}: quote it: {line}"
    assert shlex.split(line)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_can_read_all_lines(shell: str) -> None:
    script = "\n".join(line for _, line in LINES)
    done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("parser", list(parsers()), ids=lambda parser: parser.command)
def test_a_line_of_a_help_is_understood_by_its_command(parser: Parser) -> None:
    assert parser.description
    for line, text in parser.examples:
        assert text
        _, name, *words = shlex.split(re.sub(r" >>? .*", "", line))
        owner = commands.known()[name].parser()
        assert owner is not None
        owner.parse(words)
