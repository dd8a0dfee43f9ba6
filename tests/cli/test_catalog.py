"""What can be typed is known without importing torch, and never out of date."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from clframe.cli.main import main
from clframe.config import make_catalog, name_catalog
from clframe.config.read_overrides import load_catalog
from clframe.config.setting_docs import meanings
from clframe.core import registry
from clframe.sweep.expand import check_names
from clframe.utils import entry_points


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for the catalog's file."""
    path = tmp_path / "catalog.json"
    monkeypatch.setattr(name_catalog, "places", lambda: iter([path]))
    return path


def fingerprint() -> str:
    """Of everything that the catalog depends on now."""
    return name_catalog.fingerprint([name_catalog.PACKAGE, *make_catalog.package_folders()])


def test_the_file_gives_what_the_registry_says(place: Path) -> None:
    assert name_catalog.cached() is None
    made = load_catalog()
    assert place.is_file()
    assert name_catalog.cached() == made
    known = registry.discover()
    for kind in registry.KINDS:
        # Files of a group may be choices of their own (model/openloris_cnn.yaml).
        assert [name for name in made.items[kind] if name in known.names(kind)] == known.names(kind)


def test_a_change_of_any_file_makes_it_outdated(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / "streams").mkdir(parents=True)
    (package / "streams" / "mine.py").write_text("x = 1\n")
    monkeypatch.setattr(name_catalog, "PACKAGE", package)
    marks = {fingerprint()}
    assert {fingerprint()} == marks
    (package / "streams" / "mine.py").write_text("x = 22\n")
    marks.add(fingerprint())
    (package / "new.yaml").write_text("")
    marks.add(fingerprint())
    (package / "new.yaml").unlink()
    (package / "streams" / "mine.py").unlink()
    marks.add(fingerprint())
    assert len(marks) == 4
    load_catalog()
    (package / "streams" / "mine.py").write_text("x = 3\n")
    assert name_catalog.cached() is None
    assert name_catalog.cached(outdated=True) is not None


def test_a_process_older_than_a_file_does_not_keep_it(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has imported what the files were before."""
    monkeypatch.setattr(name_catalog, "PACKAGE", tmp_path)
    (tmp_path / "changed.py").write_text("x = 1\n")
    os.utime(tmp_path / "changed.py", ns=(0, make_catalog._STARTED + 1))
    load_catalog()
    assert not place.exists()
    os.utime(tmp_path / "changed.py", ns=(0, make_catalog._STARTED - 1))
    load_catalog()
    assert place.exists()


def test_a_new_package_with_plugins_makes_it_outdated(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    before = fingerprint()
    module = tmp_path / "clframe_test_brought.py"
    module.write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("brought", "clframe_test_brought", "clframe.plugins")
    monkeypatch.setattr(entry_points, "entry_points_of", lambda group: [point])
    with_package = fingerprint()
    module.write_text("x = 1\n")
    assert len({before, with_package, fingerprint()}) == 3
    assert "clframe_test_brought" not in sys.modules


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"fingerprint": 1}'])
def test_a_damaged_file_is_not_read(place: Path, content: str) -> None:
    place.write_text(content)
    assert name_catalog.cached() is None
    assert name_catalog.cached(outdated=True) is None


def test_a_broken_package_is_asked_again_every_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = registry.discover()
    known.problems.append("skipping installed plugin 'x'")
    monkeypatch.setattr(make_catalog, "discover", lambda: known)
    load_catalog()
    assert not place.exists()


TYPOS = [
    (["fti"], "unknown command 'fti'; did you mean 'fit'?"),
    (["fit", "strategi=ewc"], "unknown key 'strategi'; did you mean 'strategy'?"),
    (["fit", "strategy=ewcc"], "unknown strategy 'ewcc'; did you mean 'ewc'?"),
    (["fit", "strategy=[ewc,replai]"], "unknown strategy 'replai'; did you mean 'replay'?"),
    (["fit", "stream=split_mnits"], "unknown stream 'split_mnits'; did you mean 'split_mnist'?"),
    (["fit", "max_epoch=1"], "unknown key 'max_epoch'; did you mean 'max_epochs'?"),
    (["fit", "trainer.max_epoch=1"], "unknown setting 'max_epoch' for trainer; did you mean"),
    (["fit", "-m", "stratgy=ewc,si"], "unknown key 'stratgy'; did you mean 'strategy'?"),
    (["ste", "stram=split_mnist"], "unknown key 'stram'; did you mean 'stream'?"),
    (["list", "strem"], "did you mean 'streams'?"),
    (["list", "ewcc"], "did you mean 'ewc'?"),
]


def seconds_of_children() -> float:
    """The processor's time of all children that have ended; other processes do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(("words", "sentence"), TYPOS, ids=[" ".join(words) for words, _ in TYPOS])
def test_a_typo_is_told_without_torch(words: list[str], sentence: str) -> None:
    code = (
        "import sys; from clframe.cli.main import main\n"
        f"code = main({words})\n"
        "heavy = {'torch', 'lightning', 'hydra', 'numpy'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else code)"
    )
    # Tests that run beside this one install packages and touch files, which outdates the catalog
    # between the two lines below; then it is tried again.
    # A process fills the catalog, because other tests may have added folders to this one's path.
    fill = "from clframe.config.read_overrides import load_catalog; load_catalog()"
    for _ in range(3):
        subprocess.run([sys.executable, "-c", fill], check=True, capture_output=True)
        start = seconds_of_children()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        seconds = seconds_of_children() - start
        if done.returncode == 2:
            break
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr
    assert seconds < 1, f"{seconds:.1f} s"


@pytest.mark.parametrize(
    "words",
    [
        ["strategi=ewc"],
        ["strategy=ewcc"],
        ["strategy=[ewc,replai]"],
        ["stream=split_mnits"],
        ["optimizer=adma"],
        ["logger=cvs"],
        ["max_epoch=1"],
        ["strategy=ewc", "wieght=3"],
        ["strem.x=1"],
    ],
    ids=" ".join,
)
def test_it_is_the_sentence_that_composing_gives(words: list[str]) -> None:
    from clframe.config.compose import compose
    from clframe.errors import ClframeError

    with pytest.raises(ClframeError) as early:
        check_names(words)
    with pytest.raises(ClframeError) as late:
        compose(words)
    assert str(early.value) == str(late.value)


@pytest.mark.parametrize(
    "words",
    [
        ["strategy=mine", "plugin_path=mine.py"],
        ["strategy=mine", "--config-dir", "mine"],
        ["strategy=glob(*)"],
        ["model=resnet18"],
        ["seeds=[0,1]", "sweep.jobs=2", "sweep_dir=x", "resume.allow=[data]"],
        ["strategy=ewc,[ewc,replay]", "seed=range(0,3)", "+lr=1", "~logger"],
        ["strategy=ewc+replay", "seed=0..9", "weight=3"],
        ["experiment=three_scenarios/ewc", "c=1"],
    ],
    ids=" ".join,
)
def test_what_it_cannot_judge_passes(words: list[str]) -> None:
    check_names(words)


def test_every_setting_of_ours_has_a_meaning() -> None:
    known = load_catalog()
    missing = [
        f"{item.kind} {item.name}.{name}"
        for items in known.items.values()
        for item in items.values()
        if item.origin in ("clframe", "clframe_contrib") and item.kind != "metric"
        # torch's own schedules are explained by torch.
        if item.kind != "scheduler" or item.name == item.name.lower()
        for name, setting in item.settings.items()
        if not setting.meaning
    ]
    assert missing == []


def test_meanings_are_those_of_the_docstring() -> None:
    from clframe.core.trainer import TrainerSettings

    found = meanings(TrainerSettings)
    assert found["devices"] == "How many of them, or which."
    assert found["max_epochs"].endswith("given, 10.")


# ------------------------------------------------------------ clframe list


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["list", *words]) == 0
    return capsys.readouterr().out


def test_a_name_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of(capsys, "ewc")
    assert "ewc (strategy, from clframe)" in output
    assert "paper: Kirkpatrick et al." in output
    assert "online=false  (true or false)\n        Keep one anchor" in output
    assert "fisher=exact  (one of exact, sample, predicted, true, true_weighted, batch)" in output


def test_a_composed_strategy_shows_its_own_values(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of(capsys, "online_ewc")
    assert "strategy.ewc.NAME=VALUE:" in output
    assert "online=true" in output


def test_kinds_that_are_only_listed_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "three_scenarios/dgr" in output_of(capsys, "experiments")
    assert "max_epochs=None" in output_of(capsys, "trainer")
    assert "How many of them, or which." in output_of(capsys, "trainer", "--long")
    plain = output_of(capsys)
    assert "\nexperiments\n" not in plain
    in_full = output_of(capsys, "--long")
    assert "\nexperiments\n" in in_full
    assert "Strength of the penalty (lambda)." in in_full


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(output_of(capsys, "--json"))
    assert content["optimizers"]["adam"]["settings"]["lr"]["type"] == "a number"
    (kind,) = {item["kind"] for item in json.loads(output_of(capsys, "split_mnist", "--json"))}
    assert kind == "stream"
    assert set(json.loads(output_of(capsys, "trainer", "--json"))) == {"trainer"}
