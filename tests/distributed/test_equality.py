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
_OWN = re.findall(r'^    "(\w+)": \(', (Path(__file__).parent / "worker.py").read_text(), re.M)
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
)
CASES = [*NAMED, *_OWN]


def leaves(value: Any) -> list[tuple[str, Any]]:
    return [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(value)[0]]


def test_no_strategy_is_left_out(worker: Any, ranked: Any) -> None:
    assert sorted(worker.cases()) == sorted(CASES)
    assert sorted(ranked[0]) == sorted([*CASES, "(drift)"])


@pytest.mark.parametrize("case", CASES)
def test_ranks_hold_the_same_bits(case: str, ranked: Any) -> None:
    assert "error" not in ranked[0][case], ranked[0][case]
    first, second = leaves(ranked[0][case]), leaves(ranked[1][case])
    assert [name for name, _ in first] == [name for name, _ in second]
    for (name, one), (_, other) in zip(first, second, strict=True):
        same = torch.equal(one, other) if isinstance(one, Tensor) else one == other
        assert same, name


@pytest.mark.parametrize("case", [case for case in CASES if case != "dropout"])
def test_two_processes_do_what_one_does(case: str, worker: Any, ranked: Any) -> None:
    many, one = ranked[0][case], worker.one(case, 1)
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


def test_every_sample_is_seen_once(ranked: Any) -> None:
    positions, rows = ranked[0]["watched"]["positions"]
    steps = -(-SAMPLES // 15)
    for experience in range(3):
        seen = torch.cat(positions[experience * steps : (experience + 1) * steps])
        assert sorted(seen.tolist()) == list(range(SAMPLES))
    # A rank's share of 15 and of the last 5 samples; then as many replayed ones with each.
    assert rows == [8] * 5 + [3] + 2 * ([16] * 5 + [6])
    assert rows == ranked[1]["watched"]["positions"][1]


def test_a_run_without_dropout_would_not_pass_for_one_with_it(worker: Any, ranked: Any) -> None:
    """Masks are drawn anew on each rank, so only chance is the same as in one process."""
    one = worker.one("dropout", 1)
    assert not torch.equal(ranked[0]["dropout"]["generators"][1], one["generators"][1])
    mean = torch.tensor(ranked[0]["dropout"]["matrix"]).mean()
    assert abs(float(mean - torch.tensor(one["matrix"]).mean())) < 0.15


def test_a_plugin_whose_state_drifts_apart_is_named(ranked: Any) -> None:
    for rank in ranked:
        assert rank["(drift)"]["error"].startswith(
            "the state of plugin 'drift' (['number']) is not the same on ranks 0 and 1"
        )
