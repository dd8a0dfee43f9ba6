"""``clframe new plugin NAME``: a plugin file to start from, with its test."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.errors import RunFolderError, SettingError
from clframe.utils.console import say
from clframe.utils.files import write_text

PLUGIN = '''\
"""{title}: say in one sentence what it does."""

from __future__ import annotations

import torch

from clframe import Learner, Plugin, Step, Stream, hookimpl


class {title}(Plugin):
    """Pulls the weights towards zero (replace this by your method).

    Args:
        weight: Of the penalty.
    """

    name = "{name}"
    paper = ""

    def __init__(self, weight: float = 1e-4) -> None:
        self.weight = weight

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Called once before learning; docs/hooks.md lists every hook."""

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> torch.Tensor:
        """A tensor returned here is added to the loss of the step."""
        squares = [p.square().sum() for p in learner.named_trainable().values()]
        return self.weight * torch.stack(squares).sum()
'''

TEST = '''\
"""Run with: pytest {test}"""

from {name} import {title}

import clframe
from clframe.testing import check_plugin, toy_stream


def test_keeps_the_contract() -> None:
    check_plugin({title}())


def test_learns_the_toy_stream() -> None:
    result = clframe.fit(toy_stream(), {title}(), max_epochs=5, run_dir=False, progress=False)
    assert result.metrics["learning_accuracy"]["learning_accuracy"] > 0.8
'''


def parser() -> Parser:
    """The arguments of the command."""
    parser = Parser("new", "Write something to start from into the current folder.")
    plugin = parser.add_subcommand(
        "plugin",
        "Write NAME.py, a plugin that works as it is, and test_NAME.py.",
        [
            ("clframe new plugin my_method", "writes my_method.py and test_my_method.py"),
            ("clframe fit plugin_path=my_method.py strategy=my_method", "runs it"),
        ],
    )
    plugin.add_argument("name", metavar="NAME", help="letters, digits and underscores")
    return parser


def main(words: Sequence[str]) -> int:
    """Write both files into the current folder and say how to use them."""
    given = parser().parse(words).name
    name = given.lower().replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise SettingError(
            f"'{given}' cannot be a plugin's name; use letters, digits and underscores, "
            "starting with a letter"
        )
    title = "".join(part.capitalize() for part in name.split("_"))
    plugin, test = Path(f"{name}.py"), Path(f"test_{name}.py")
    for path in (plugin, test):
        if path.exists():
            raise RunFolderError(f"'{path}' exists already; choose another name or remove it")
    try:
        write_text(plugin, PLUGIN.format(name=name, title=title))
        write_text(test, TEST.format(name=name, title=title, test=test))
    except OSError as error:
        raise RunFolderError(f"'{plugin}' cannot be written here: {error.strerror}") from error
    say(f"wrote {plugin} and {test}")
    say(f"  try it:   clframe fit plugin_path={plugin} strategy={name}")
    say(f"  test it:  pytest {test}")
    return 0
