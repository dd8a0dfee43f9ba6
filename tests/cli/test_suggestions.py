"""Names that people bring from other tools lead to clframe's own, and ranges work for seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from clframe.cli.main import main

HABITS = [
    ("learning_rate=0.1", "unknown key 'learning_rate'; did you mean 'lr'?"),
    ("optimizer.learning_rate=0.1", "did you mean 'lr'?"),
    ("device=cuda", "unknown key 'device'; did you mean 'accelerator'?"),
    ("trainer.device=cuda", "did you mean 'accelerator'?"),
    ("gpus=2", "unknown key 'gpus'; did you mean 'devices'?"),
    ("epochs=3", "unknown key 'epochs'; did you mean 'max_epochs'?"),
    ("batchsize=32", "unknown key 'batchsize'; did you mean 'batch_size'?"),
    ("wandb=true", "unknown key 'wandb'; did you mean 'logger=wandb'?"),
    ("dataset=mnist", "unknown key 'dataset'; did you mean 'stream'?"),
    ("stream=cifar10", "unknown stream 'cifar10'; did you mean 'split_cifar10'?"),
    ("stream=mnist", "unknown stream 'mnist'; did you mean 'split_mnist'?"),
    ("stream=fashion-mnist", "did you mean 'split_fashion_mnist'?"),
    ("strategy=finetune", "unknown strategy 'finetune'; did you mean 'naive'?"),
    ("strategy=experience_replay", "did you mean 'er'?"),
    ("strategy=ewc+", "a name is missing next to '+'; write strategy=ewc+replay"),
    ("strategy=[+ewc,si]", "a name is missing next to '+'; write strategy=ewc+replay"),
    ("seeds=2..0", "counts backwards; write seeds=0..2"),
    ("seeds=a..b", "seeds must be a list such as seeds=0,1,2 or seeds=0..2, got 'a..b'"),
]


@pytest.mark.parametrize(("word", "message"), HABITS, ids=[word for word, _ in HABITS])
def test_what_people_type_leads_to_the_right_name(
    word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", word]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert message in printed


def test_every_suggestion_is_a_name_that_exists() -> None:
    from clframe.config.groups import GROUPS, ROOT_KEYS
    from clframe.config.read_overrides import catalog_of
    from clframe.config.setting_groups import GROUPS_OF_SETTINGS
    from clframe.core.registry import GIVEN, discover
    from clframe.errors import _HABITS
    from clframe.utils import setting_checks

    registry = discover()
    known = {*GROUPS, *ROOT_KEYS, "resnet18"}
    for names in catalog_of().groups.values():
        known.update(names)
    for factory in GROUPS_OF_SETTINGS.values():
        known.update(setting_checks.defaults(factory))
    for kind in ("stream", "plugin", "model", "optimizer"):
        for name in registry.names(kind):
            known.update(
                setting_checks.defaults(registry.get(kind, name).factory, GIVEN.get(kind, ()))
            )
    missing = {
        ours for all_ours in _HABITS.values() for ours in all_ours
        if ours.partition("=")[0] not in known
    }  # fmt: skip
    assert not missing
    assert not {name for name in _HABITS if name in {*GROUPS, *ROOT_KEYS}}


def test_a_range_of_seeds_is_a_list(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["strategy=naive", "seeds=0..1,4", "max_steps=1", f"run_dir={run}", "progress=false"]
    assert main(["fit", *words]) == 0
    assert sorted(path.name for path in run.iterdir()) == ["s0", "s1", "s4"]
