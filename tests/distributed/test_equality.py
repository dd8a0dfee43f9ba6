"""Two processes against one, and against each other, for every strategy.

Ranks must hold the same bits. Against one process sums are made in another order, so weights and
plugin states may differ by TOLERANCE, relative to the largest entry of a tensor, and a cell of the
matrix by one sample. (Measured on this stream: 3e-5 and no sample.)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

TOLERANCE = 1e-3
SAMPLES = 80
"""Of a task's evaluation data."""

# Read from the text: the module itself is for the processes of the runs.
_TEXT = (Path(__file__).parent / "worker.py").read_text()
_OWN = re.findall(r'^    "(\w+)": \(', _TEXT, re.M)
NAMED = (
    *(
        "agem",
        "best_checkpoint",
        "cumulative",
        "cwr_star",
        "der",
        "derpp",
        "dgr",
        "dgr_distill",
        "er",
        "er_ace",
    ),
    *("ewc", "feedback_replay", "freeze", "gdumb", "gem", "generative_replay", "icarl"),
    *("linear_probe", "lwf", "mas", "multitask", "naive", "online_ewc", "packnet", "replay"),
    *("rtf", "si", "xdg"),
    *("fecam", "ncm", "randumb", "ranpac", "slda"),
    *("cbp", "hat", "lamaml", "pnn", "podnet", "rwalk", "shrink_perturb"),
    *("bic", "gss", "lucir", "mir", "scr", "wa", "xder"),
)
CASES = [*NAMED, *_OWN]
# Also read from the text; two forked ranks run these in the quick tier.
_FEW = re.search(r"^FEW = \((.*?)^\)", _TEXT, re.M | re.S)
assert _FEW is not None
FEW = re.findall(r'"(\w+)"', _FEW[1])


def leaves(value: Any) -> list[tuple[str, Any]]:
    return [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(value)[0]]


def test_no_strategy_is_left_out(worker: Any) -> None:
    assert sorted(worker.cases()) == sorted(CASES)
    assert sorted(worker.FEW) == sorted(FEW)
    assert set(FEW) <= set(CASES)


@pytest.mark.slow(minutes=2)
def test_every_case_was_run(ranked: Any) -> None:
    assert sorted(ranked[0]) == sorted([*CASES, "(drift)"])


def check_same_bits(first: dict[str, Any], second: dict[str, Any]) -> None:
    """What two ranks ended with is the same."""
    assert "error" not in first, first
    ours, theirs = leaves(first), leaves(second)
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (name, one), (_, other) in zip(ours, theirs, strict=True):
        same = torch.equal(one, other) if isinstance(one, Tensor) else one == other
        assert same, name


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ranks_hold_the_same_bits(case: str, ranked: Any) -> None:
    check_same_bits(ranked[0][case], ranked[1][case])


def check_does_what_one_does(many: dict[str, Any], one: dict[str, Any]) -> None:
    """What a rank ended with is, but for rounding, what one process ends with."""
    matrices = torch.tensor(many["matrix"]), torch.tensor(one["matrix"])
    assert (matrices[0] - matrices[1]).abs().max() <= 1.01 / SAMPLES
    for part in ("learner", "plugins"):
        for (name, ours), (_, theirs) in zip(leaves(many[part]), leaves(one[part]), strict=True):
            if not isinstance(ours, Tensor):
                assert ours == theirs, name
            elif ours.is_floating_point():
                near = TOLERANCE * float(theirs.abs().max()) if len(theirs.flatten()) else 0.0
                torch.testing.assert_close(ours, theirs, rtol=TOLERANCE, atol=near, msg=name)
            else:
                assert torch.equal(ours, theirs), name
    # Nothing was drawn more or less often than in one process.
    for ours, theirs in zip(many["generators"], one["generators"], strict=True):
        assert torch.equal(ours, theirs)


# "looked_at" keeps plain numbers of weights and scores, which are sums in another order.
@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c not in ("dropout", "looked_at")])
def test_two_processes_do_what_one_does(case: str, worker: Any, ranked: Any) -> None:
    check_does_what_one_does(ranked[0][case], worker.one(case, 1))


def check_watched(ranked: Any) -> None:
    """Every sample of an experience is seen once, by one rank or the other."""
    positions, rows = ranked[0]["watched"]["positions"]
    steps = -(-SAMPLES // 15)
    for experience in range(3):
        seen = torch.cat(positions[experience * steps : (experience + 1) * steps])
        assert sorted(seen.tolist()) == list(range(SAMPLES))
    # A rank's share of 15 and of the last 5 samples; then as many replayed ones with each.
    assert rows == [8] * 5 + [3] + 2 * ([16] * 5 + [6])
    assert rows == ranked[1]["watched"]["positions"][1]


def check_drift(ranked: Any) -> None:
    """A plugin whose state drifts apart is named on both ranks."""
    for rank in ranked:
        assert rank["(drift)"]["error"].startswith(
            "the state of plugin 'drift' (['number']) is not the same on ranks 0 and 1"
        )


def test_two_forked_ranks_do_what_one_process_does(worker: Any, few_ranked: Any) -> None:
    """All that is asserted of every case below, for a few; one test, so that they start once."""
    for case in FEW:
        check_same_bits(few_ranked[0][case], few_ranked[1][case])
        check_does_what_one_does(few_ranked[0][case], worker.one(case, 1))
    check_watched(few_ranked)
    check_drift(few_ranked)


@pytest.mark.slow
def test_every_sample_is_seen_once(ranked: Any) -> None:
    check_watched(ranked)


@pytest.mark.slow
def test_a_run_without_dropout_would_not_pass_for_one_with_it(worker: Any, ranked: Any) -> None:
    """Masks are drawn anew on each rank, so only chance is the same as in one process."""
    one = worker.one("dropout", 1)
    assert not torch.equal(ranked[0]["dropout"]["generators"][1], one["generators"][1])
    mean = torch.tensor(ranked[0]["dropout"]["matrix"]).mean()
    assert abs(float(mean - torch.tensor(one["matrix"]).mean())) < 0.15


@pytest.mark.slow
def test_a_plugin_whose_state_drifts_apart_is_named(ranked: Any) -> None:
    check_drift(ranked)
