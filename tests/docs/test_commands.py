"""Every command in README and docs/ is one that can be typed: in bash and zsh, and for clframe.

Runs are composed and checked as ``clframe fit`` does before it starts; what is run for real are
the commands of "Start in five minutes".
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import clframe
from clframe.cli import commands as known_commands
from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.config.name_catalog import Catalog
from clframe.config.read_overrides import catalog_of
from clframe.sweep.expand import check_names, divide, expand
from tests.helpers.pages import PAGES, RESULTS, ROOT, blocks, commands, name_of, taken_by_a_shell

NOT_CHECKED = {
    'clframe fit "${S[@]}" run_dir=lifetime': "an array of the shell that the page defines",
    'clframe ste "${S[@]}" --out experts': "an array of the shell that the page defines",
    "clframe fit --config-dir DIR stream=few": "a config that the page shows; tests/config has it",
}
FIRST_PAGES = (
    "README.md", "docs/start.md", "docs/from_", "docs/own_", "docs/cluster.md", "docs/configs.md",
)  # fmt: skip
_WORDS_FOR = {"NAME": "folder"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands name: a run, and files of the user's own."""
    folder = tmp_path_factory.mktemp("docs")
    clframe.fit(
        "split_mnist", max_epochs=1, limit_train_batches=2, run_dir=folder / "RUN", progress=False
    )
    (folder / "examples").symlink_to(ROOT / "examples")
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python":
                for name in re.findall(r"^class (\w+)\(Plugin\)", block.text, re.M):
                    (folder / f"{name.lower()}.py").write_text(block.text)
                for name in re.findall(r"^# (\w+\.py)$", block.text, re.M):
                    (folder / name).write_text(block.text)
    return folder


def _all(paths: list[Path]) -> dict[str, str]:
    """Commands, each with the first page that has it."""
    found: dict[str, str] = {}
    for path in paths:
        for command in commands(path):
            found.setdefault(command, name_of(path))
    return found


def test_shells_take_every_line_as_it_stands() -> None:
    wrong = {
        f"{page}: {command}": taken
        for command, page in _all([*PAGES, *RESULTS]).items()
        if command not in NOT_CHECKED and (taken := taken_by_a_shell(command))
    }
    assert not wrong, wrong


def _runs() -> dict[str, tuple[str, list[str], bool]]:
    """By command: its page, its settings, and whether it is a sweep."""
    parser = known_commands.known()["fit"].parser()
    assert parser is not None
    found = {}
    for command, page in _all(PAGES).items():
        words = shlex.split(command)
        if words[:2] == ["clframe", "fit"] and command not in NOT_CHECKED and "--help" not in words:
            arguments = parser.parse(words[2:])
            settings = [word for word in arguments.settings if not word.startswith("seeds=")]
            found[command] = (page, settings, arguments.multirun)
    return found


def _wrong_setting(known: Catalog, settings: list[str]) -> str | None:
    """A setting that what was chosen does not have, or a value that is not among its choices."""
    chosen = {key: value for key, _, value in (word.partition("=") for word in settings)}
    for key, value in chosen.items():
        group, *names = key.split(".")
        if group == "strategy" and len(names) == 2:
            item = known.items["plugin"].get(names[0])
        elif group in ("stream", "model", "scheduler", "optimizer", "learner") and len(names) == 1:
            # An experiment chooses, too.
            default = "" if "experiment" in chosen else known.defaults.get(group, "")
            item = known.items[group].get(chosen.get(group, default))
        else:
            continue
        if item is None:  # of a file of the page, or of an experiment
            continue
        setting = item.settings.get(names[-1])
        if setting is None:
            return f"{item.kind} '{item.name}' has no setting '{names[-1]}'"
        if setting.choices and value not in setting.choices and "," not in value:
            return f"{key}={value} is none of {setting.choices}"
    return None


def test_names_and_settings_of_every_run_are_known() -> None:
    known = catalog_of()
    wrong = {}
    for command, (page, settings, _) in _runs().items():
        if page not in ("docs/plugins.md", "docs/tutorial.md"):  # their plugins are on the page
            check_names(settings)
        why = _wrong_setting(known, settings)
        if why is not None:
            wrong[f"{page}: {command}"] = why
    assert not wrong, wrong
    assert len(_runs()) > 100


def test_runs_can_be_composed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``clframe fit`` does before it starts: those of the first pages, one of every other."""
    monkeypatch.chdir(place)
    wrong = {}
    seen = set()
    for command, (page, settings, sweeps) in _runs().items():
        if page in seen and not page.startswith(FIRST_PAGES):
            continue
        seen.add(page)
        try:
            if sweeps:
                plan = expand(divide(settings).overrides, lambda group: ())
                settings = plan.overrides(plan.samples[0])
            compose(settings)
        except Exception as error:
            wrong[f"{page}: {command}"] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"{where}\n    {why}" for where, why in wrong.items())
    assert len(seen) > 20


def test_names_in_commands_of_results_exist() -> None:
    for command, page in _all(RESULTS).items():
        words = shlex.split(command)
        if words[:2] == ["clframe", "fit"]:
            check_names([word for word in words[2:] if "=" in word and not word.startswith("-")])
        assert words[0] in ("clframe", "python"), page


def test_every_other_command_has_arguments_that_are_known() -> None:
    known = known_commands.known()
    wrong = {}
    for command, page in _all([*PAGES, *RESULTS]).items():
        words = [_WORDS_FOR.get(word, word) for word in shlex.split(command)]
        if words[0] == "python":
            theirs = page.startswith("docs/from_")  # programs of other projects
            if not theirs and words[1] != "-m" and not (ROOT / words[1]).is_file():
                wrong[f"{page}: {command}"] = "no such file"
            continue
        name, *rest = words[1:]
        if name.startswith("-") or name == "fit" or command in NOT_CHECKED or "--help" in rest:
            continue
        try:
            parser = known[name].parser()
            assert parser is not None
            parser.parse(rest)
        except (Exception, SystemExit) as error:
            wrong[f"{page}: {command}"] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"{where}\n    {why}" for where, why in wrong.items())


@pytest.mark.slow  # test_first_lines.py runs the same page with real processes
def test_the_first_five_minutes_go_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    typed = [c for c in commands(ROOT / "docs" / "start.md") if c.startswith("clframe ")]
    ran = []
    for command in typed:
        words = shlex.split(command)[1:]
        if words[0] not in ("fit", "list", "compare", "report") or "NAME" in words:
            continue
        if words[0] in ran and "-m" not in words:  # one of a kind
            continue
        if "-m" in words:  # two runs in its place; tests/sweep has sweeps
            for strategy in ("naive", "er"):
                folder = tmp_path / "first" / strategy
                short = {"max_epochs": 1, "limit_train_batches": 2, "progress": False}
                clframe.fit("split_mnist", strategy, run_dir=folder, **short)
            continue
        assert main([*words, "trainer.limit_train_batches=3"] if "fit" in words else words) == 0
        ran.append(words[0])
    assert set(ran) == {"fit", "list", "compare", "report"}
    assert (tmp_path / "first" / "report.html").is_file()
    assert "gem.acc" in capsys.readouterr().out
