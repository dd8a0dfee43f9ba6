"""One form of arguments for all commands, and a help for each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint

import pytest

from clframe.cli import commands
from clframe.cli.main import main
from clframe.cli.parser import Parser, whole
from clframe.errors import SettingError
from clframe.utils import entry_points


@pytest.fixture
def parser() -> Parser:
    parser = Parser("test", "For tests.", key_value=True)
    parser.add_settings("settings")
    parser.add_argument("--out", metavar="DIR")
    parser.add_argument("--num-workers", type=whole(1))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--shape", choices=("round", "square"))
    return parser


def test_options_stand_between_settings(parser: Parser) -> None:
    arguments = parser.parse(["seed=1", "--out", "here", "lr=0.1"])
    assert arguments.settings == ["seed=1", "lr=0.1"]
    assert arguments.out == "here"


def test_an_option_can_be_written_as_a_setting(parser: Parser) -> None:
    arguments = parser.parse(["out=here", "num_workers=2", "again=true", "stream=x"])
    assert (arguments.out, arguments.num_workers, arguments.again) == ("here", 2, True)
    assert arguments.settings == ["stream=x"]
    assert parser.parse(["again=false"]).again is False


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--ouut", "x"], "unknown option '--ouut'; did you mean '--out'?"),
        (["--shape", "rund"], "invalid choice 'rund'; did you mean 'round'?"),
        (["--num-workers", "0"], "must be a whole number from 1 up, got '0'"),
        (["again=yes"], "again must be true or false, got 'yes'"),
        (["--out"], "argument --out: expected one argument"),
    ],
)
def test_mistakes_are_sentences(parser: Parser, words: list[str], sentence: str) -> None:
    with pytest.raises(SettingError) as caught:
        parser.parse(words)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "'clframe test --help' shows what it takes" in str(caught.value)


HELPS = [
    [command.name, *rest, flag]
    for command in commands.BUILT_IN
    for rest in ([], *([name] for name in command.parser().subcommands))  # type: ignore[union-attr]
    for flag in ("-h", "--help")
]


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_every_command_has_a_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.startswith(f"usage: clframe {' '.join(words[:-1])}")
    assert "examples:\n  clframe " in output.out or words[0] in ("new", "data")


def test_the_help_can_be_asked_for_after_other_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "strategy=ewc", "--help"]) == 0
    output = capsys.readouterr().out
    assert "other keys:\n  seed " in output
    assert "clframe fit resume=RUN" in output
    for group in ("stream", "strategy", "model", "optimizer", "trainer", "logger", "experiment"):
        assert f"\n  {group} " in output


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    output = capsys.readouterr().out
    for command in commands.BUILT_IN:
        assert f"\n  clframe {command.name} " in output


def test_no_help_needs_torch() -> None:
    code = (
        "import sys; from clframe.cli.main import main\n"
        f"for words in {HELPS}: main(words)\n"
        "sys.exit(bool({'torch', 'lightning', 'hydra', 'mujoco'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


# ------------------------------------------------------------ commands of installed packages


def hello(words: Sequence[str]) -> int:
    sys.stdout.write(f"hello {' '.join(words)}\n")
    return 3


def silent(words: Sequence[str]) -> None:
    if words:
        raise SettingError("silent takes no words")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "clframe_test_commands"
    monkeypatch.setitem(sys.modules, module, sys.modules[__name__])
    points = [
        EntryPoint("hello", f"{module}:hello", commands.ENTRY_POINT_GROUP),
        EntryPoint("silent", f"{module}:silent", commands.ENTRY_POINT_GROUP),
        EntryPoint("broken", "clframe_is_not_there:main", commands.ENTRY_POINT_GROUP),
        EntryPoint("nothing", f"{module}:HELPS", commands.ENTRY_POINT_GROUP),
        EntryPoint("fit", f"{module}:hello", commands.ENTRY_POINT_GROUP),
    ]
    in_order = sorted(points, key=lambda point: point.name)
    monkeypatch.setattr(entry_points, "entry_points_of", lambda group: in_order)


@pytest.mark.usefixtures("installed")
def test_a_package_adds_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hello", "there", "--help"]) == 3
    assert capsys.readouterr().out == "hello there --help\n"
    assert main(["silent"]) == 0
    assert main(["silent", "x"]) == 2
    assert capsys.readouterr().err == "clframe: silent takes no words\n"
    assert main(["--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "of installed packages: clframe broken ... [clframe_is_not_there:main]" in words
    assert "clframe hello ... [clframe_test_commands:hello]" in words
    assert main(["helo"]) == 2
    assert "did you mean 'hello'?" in capsys.readouterr().err


@pytest.mark.usefixtures("installed")
def test_a_broken_command_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broken"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "command 'broken' of clframe_is_not_there:main" in error
    problems = [line for good, line in commands.checked() if not good]
    assert len(problems) == 3
    assert "cannot be loaded: ModuleNotFoundError" in problems[0]
    assert "command 'fit' of" in problems[1]
    assert "is ignored: clframe has one of that name" in problems[1]
    assert "neither a function nor a module" in problems[2]
    assert commands.known()["fit"].point is None


@pytest.mark.usefixtures("installed")
def test_doctor_tells_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    output = capsys.readouterr().out
    assert "ok  command 'hello' of" in output
    assert "BAD command 'broken' of" in output
    assert "ok  command 'broken' of" not in output


@pytest.mark.parametrize("value", ["1", "true"])
def test_one_guard_for_all(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["report", "nowhere"], ["l2", "nowhere"], ["eval", "nowhere"], ["fti"]):
        monkeypatch.setenv("CLFRAME_DEBUG", value)
        with pytest.raises(Exception, match=r"nowhere|fti"):
            main(words)
        monkeypatch.delenv("CLFRAME_DEBUG")
        assert main(words) == 2
    assert "CLFRAME_DEBUG" not in os.environ
