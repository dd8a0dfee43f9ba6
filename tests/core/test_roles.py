"""Plugins conflict by what they decide: no file names another file's plugin."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from clframe import Capabilities, Plugin, PluginError, hookimpl
from clframe.core.plugin import check_composition, conflicting
from clframe.core.roles import ROLES
from clframe.testing import toy_run, toy_stream
from tests.helpers.methods import METHODS, REGISTRY, make

ROOT = Path(__file__).parents[2]
CLASSES = REGISTRY.plugin_classes()
# Of today's methods; a new one is in its own file only, and counts nowhere here.
EXCLUSIVE = {
    "training data": "bic cumulative gdumb icarl lucir multitask podnet wa",
    "task loss": "er_ace icarl lamaml podnet scr xder",
    "gradient": "agem gem",
    "parameters": "adapter aper coda_prompt dualprompt freeze hat inflora l2p lora packnet "
    "pnn slca",
    "units": "cbp hat pnn xdg",
    "head": "bic cwr_star lucir podnet slca wa",
    "prediction": "aper bic fecam icarl ncm randumb ranpac scr slda",
    "first weights": "gdumb reptile shrink_perturb",
    "generator": "feedback_replay generative_replay",
    "stored logits": "der derpp",
}
SHARED = {
    "joint training": "multitask",
    "task weights": "hat packnet pnn",
    "tuning": "adapter aper coda_prompt dualprompt inflora l2p lora slca",
    "fixed weights": "adapter aper coda_prompt cwr_star dualprompt fecam freeze inflora l2p lora "
    "ncm randumb ranpac slca slda",
    "new head": "lucir podnet",
    "untrained head": "scr",
    "replayed samples": "der derpp er_ace feedback_replay generative_replay gss lamaml mir replay "
    "scr xder",
    "weight penalty": "ewc mas rwalk si",
}
# Who excludes a role: each of the first with each of the second's role.
EXCLUDED = {
    "adapter aper coda_prompt dualprompt inflora l2p lora": ["new head"],
    "fecam ncm randumb ranpac slda aper": ["training data"],
    "cbp": ["new head", "task weights", "fixed weights"],
    "shrink_perturb": ["task weights", "fixed weights"],
    "gdumb": ["task weights", "replayed samples"],
    "multitask podnet reptile": ["task weights"],
    "cwr_star slca": ["joint training"],
    "feedback_replay gss xder": ["new head"],
    "inflora": ["weight penalty"],
    "lamaml": ["task weights", "tuning"],
    "bic lucir mir wa": ["untrained head"],
}


def role_pairs() -> set[frozenset[str]]:
    """The pairs of today's methods that the rules above refuse."""
    every = {role: names.split() for role, names in (EXCLUSIVE | SHARED).items()}
    pairs = {
        frozenset(pair) for role in EXCLUSIVE for pair in itertools.combinations(every[role], 2)
    }
    for names, roles in EXCLUDED.items():
        for role in roles:
            pairs |= {frozenset(pair) for pair in itertools.product(names.split(), every[role])}
    return pairs


def test_todays_methods_have_the_roles_that_they_should() -> None:
    for role, names in (EXCLUSIVE | SHARED).items():
        assert ROLES[role].exclusive == (role in EXCLUSIVE)
        assert {name for name in METHODS if role in CLASSES[name].roles} >= set(names.split())
    assert set(EXCLUSIVE | SHARED) == set(ROLES)


def test_todays_pairs_are_refused_by_the_rules_and_no_others_are() -> None:
    """A pair that becomes possible, or impossible, must be meant."""
    expected = role_pairs()
    assert len(expected) == 294
    known = {name for names in (EXCLUSIVE | SHARED).values() for name in names.split()}
    refused = {
        frozenset((one, other))
        for one, other in itertools.combinations(sorted(known), 2)
        if (words := conflicting(CLASSES[one], CLASSES[other])) and "without steps" not in words
    }
    assert refused == expected


def test_what_learns_without_steps_leaves_nothing_to_what_acts_in_steps() -> None:
    without = [n for n in METHODS if not CLASSES[n].capabilities.training_steps]
    assert set(without) >= {"aper", "fecam", "ncm", "randumb", "ranpac", "slda"}
    for one, other in itertools.product(without, ("ewc", "replay", "si", "lwf", "derpp")):
        assert "learns without steps" in conflicting(CLASSES[one], CLASSES[other])
    assert not conflicting(CLASSES["ncm"], CLASSES["plasticity"])


def test_a_conflict_does_not_depend_on_the_order() -> None:
    for one, other in itertools.combinations(METHODS, 2):
        first = conflicting(CLASSES[one], CLASSES[other])
        assert bool(first) == bool(conflicting(CLASSES[other], CLASSES[one])), (one, other)


# ------------------------------------------------------------ a new method


class NewHead(Plugin):
    """Puts a classifier of its own in place of the head."""

    scenarios = ("class",)
    roles = ("head", "new head")
    excludes: ClassVar[Mapping[str, str]] = {
        "weight penalty": "its classifier grows with the classes"
    }

    @hookimpl
    def penalty(self) -> None:
        """Add nothing."""


def test_a_new_plugin_conflicts_and_combines_by_its_roles() -> None:
    stream = toy_stream("class")

    def refused(other: str) -> str:
        words = []
        for plugins in ([NewHead(), make(other)], [make(other), NewHead()]):
            with pytest.raises(PluginError, match="cannot be combined with") as error:
                check_composition(plugins, stream)
            words.append(str(error.value))
        assert all("'newhead'" in one and f"'{other}'" in one for one in words)
        return words[0]

    for other in ("wa", "bic", "lucir", "slca", "cwr_star"):
        assert refused(other).endswith(
            f"both have the role 'head' ({ROLES['head'].meaning}); choose one of them"
        )
    assert "role 'weight penalty'" in refused("rwalk")
    assert "its classifier grows with the classes" in refused("ewc")
    # What others say of the role reaches the new plugin, which none of them names.
    assert "single samples" in refused("gss")
    assert "freezes the existing model" in refused("lora")
    for other in ("replay", "lwf", "derpp", "icarl"):
        check_composition([NewHead(), make(other)], stream)
    toy_run([NewHead(), make("replay")], stream, max_epochs=1)


def test_a_derived_plugin_has_its_parents_roles_unless_it_has_its_own() -> None:
    class Softer(NewHead):
        """Has the roles of its parent."""

    class Plain(NewHead):
        """Has none."""

        roles = ()
        excludes: ClassVar[Mapping[str, str]] = {}

    assert "'softer' cannot be combined with 'wa'" in conflicting(Softer, CLASSES["wa"])
    assert not conflicting(Plain, CLASSES["wa"])
    assert not conflicting(Plain, CLASSES["ewc"])


# ------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"roles": ("haed",)}, r"roles names the unknown role 'haed'; did you mean 'head'"),
        ({"roles": "head"}, r"roles is 'head': write a tuple of names"),
        ({"excludes": {"ewc": "no"}}, r"excludes names the unknown role 'ewc'"),
        ({"excludes": ("head",)}, r"excludes is \('head',\): write a reason for each role"),
        ({"conflicts": ("ewc",)}, r"sets 'conflicts', which nothing reads: write its own roles in"),
        ({"conflict_reasons": {}}, r"sets 'conflict_reasons', which nothing reads"),
        ({"multi_pass": True}, r"write capabilities = Capabilities\(multi_pass=True\)"),
        ({"needs_tokens": True}, r"write capabilities = Capabilities\(needs_tokens=True\)"),
        ({"attachable": "it is shy"}, r"Capabilities\(attachable='it is shy'\)"),
        ({"task_gated": property(lambda self: True)}, r"Capabilities\(task_gated=\.\.\.\)"),
        ({"requires_class_labels": True}, r"Capabilities\(needs_class_labels=True\)"),
        ({"supports_distributed": False}, r"Capabilities\(distributed=False\)"),
        ({"supports_batched_seeds": True}, r"Capabilities\(batched_seeds=True\)"),
        ({"freezes_features": True}, r"Capabilities\(frozen_features=True\)"),
        ({"uses_training_steps": False}, r"Capabilities\(training_steps=False\)"),
        ({"is_evaluator": True}, r"Capabilities\(evaluator=True\)"),
        ({"capabilities": {"multi_pass": True}}, r"write capabilities = Capabilities\(\.\.\.\)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_nothing_would_read_is_refused_when_the_class_is_made(
    attributes: dict[str, Any], words: str
) -> None:
    with pytest.raises(PluginError, match=words):
        type("Mistaken", (Plugin,), attributes)


def test_an_attribute_that_a_mixin_brings_is_refused_too() -> None:
    class Mixin:
        multi_pass = True

    with pytest.raises(PluginError, match=r"Mistaken sets 'multi_pass' as an attribute"):
        type("Mistaken", (Mixin, Plugin), {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"multipass": True}, "Capabilities has no 'multipass'; did you mean 'multi_pass'"),
        ({"is_evaluator": True}, "Capabilities has no 'is_evaluator'; write evaluator"),
        ({"distributed": "no"}, r"Capabilities\(distributed='no'\): write True or False"),
        ({"attachable": False}, r"Capabilities\(attachable=False\): write True, a reason or None"),
        ({"batch_losses": True}, "write a number of samples or None"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_capability_that_there_is_not_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(PluginError, match=words):
        Capabilities(**given)


def test_a_capability_set_on_an_object_is_refused_before_the_run() -> None:
    class Late(Plugin):
        """Decides too late."""

        def __init__(self) -> None:
            self.multi_pass = True

    class Setting(Plugin):
        """Has a setting with the name of a capability."""

        def __init__(self, multi_pass: bool = True) -> None:
            self.multi_pass = multi_pass

    with pytest.raises(PluginError, match=r"a Late object sets 'multi_pass' as an attribute"):
        check_composition([Late()], toy_stream())
    check_composition([Setting()], toy_stream())


def test_a_counter_may_have_the_name_of_a_capability() -> None:
    class Counter(Plugin):
        """Counts."""

        training_steps = 0

    check_composition([Counter()], toy_stream())


# ------------------------------------------------------------ one file for a method


def named_in(path: Path) -> set[str]:
    """Methods whose names a file compares the names of plugins with, or lists as conflicts."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        looked_at: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(re.search(r"\bnames?$", ast.unparse(side)) for side in sides):
                looked_at = [*sides]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {ast.unparse(target).lower() for target in targets}
            if node.value and any("conflict" in n or n in ("roles", "excludes") for n in names):
                looked_at = [node.value]
        for part in looked_at:
            for leaf in ast.walk(part):
                if isinstance(leaf, ast.Constant) and leaf.value in METHODS:
                    found.add(leaf.value)
    return found


def test_no_file_asks_for_a_plugin_by_name_or_lists_it_as_a_conflict() -> None:
    """Adding a method touches its file, its test and the changelog."""
    files = [f for room in ("clframe", "plugins_contrib") for f in (ROOT / room).rglob("*.py")]
    assert len(files) > 400
    asking = {str(f.relative_to(ROOT)): names for f in files if (names := named_in(f))}
    # The trial run of that one needs measurements on the way; nothing is refused.
    assert asking == {"clframe/cli/_doctor_gpu.py": {"best_checkpoint"}}
    assert not set(ROLES) & set(METHODS)


def test_the_search_finds_what_it_is_for(tmp_path: Path) -> None:
    file = tmp_path / "asks.py"
    for line in (
        'joint = "multitask" in names',
        'if plugin.name in ("packnet", "hat"): pass',
        'conflicts = ("ewc",)',
        'CONFLICTS: tuple[str, ...] = ("lora",)',
    ):
        file.write_text(line)
        assert named_in(file), line


def test_the_page_about_plugins_has_the_table() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    rows = [
        f"| `{name}` | {role.meaning} | {'one' if role.exclusive else 'any'} |"
        for name, role in ROLES.items()
    ]
    assert "\n".join(rows) in page
