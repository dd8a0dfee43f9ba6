"""Cells in arrays that only grow: what a checkpoint shares with the run never changes."""

from __future__ import annotations

import math

import numpy as np
import torch

from clframe.core.matrix import AccuracyMatrix
from clframe.evaluation.entries import Entries
from clframe.evaluation.forgetting_tensor import ForgettingTensor


def test_a_state_stays_what_it_was_while_the_entries_grow() -> None:
    entries = Entries(1)
    entries.append([[0], [1]], [0.5, 0.25])
    state = entries.state_dict()
    for number in range(100):
        entries.append([[number]], [1.0])
    assert state["places"].tolist() == [[0], [1]]
    assert state["values"].tolist() == [0.5, 0.25]
    assert state["values"].untyped_storage().nbytes() == 16, "no more than it holds is saved"
    again = Entries(1)
    again.load_state_dict(state)
    again.append([[7]], [2.0])
    assert again.values.tolist() == [0.5, 0.25, 2.0]
    assert state["values"].tolist() == [0.5, 0.25]


def test_a_matrix_comes_back_from_its_state_and_saves_only_what_was_measured() -> None:
    matrix = AccuracyMatrix([f"task{n}" for n in range(500)], "success")
    for n in range(400):
        matrix.add_row(f"exp{n}", {f"task{n}": n / 7, "unknown": 1.0, "task499": math.nan})
    state = matrix.state_dict()
    assert state["values"].shape == (400,)
    again = AccuracyMatrix.from_state(state)
    assert again.to_json() == matrix.to_json()
    np.testing.assert_array_equal(again.values, matrix.values)
    assert again.to_csv() == matrix.to_csv()
    fewer = matrix.with_columns(["task3", "new"])
    assert fewer.cells[3] == [3 / 7, None]
    assert fewer.rows == matrix.rows


def test_an_empty_tensor_costs_nothing_and_a_filled_one_comes_back() -> None:
    tensor = ForgettingTensor([f"task{n}" for n in range(300)])
    for _ in range(300):
        tensor.add_row({"task0": {"success": 1.0}})
    assert not tensor
    assert sum(value.numel() for value in _tensors(tensor)) == 0
    tensor.add_row({"task1": {"success": 1.0, "success@light=0.5": 0.25, "success@eye=1": 0.5}})
    again = ForgettingTensor.from_state(tensor.columns, tensor.state_dict())
    assert again.to_json() == tensor.to_json()
    assert (again.axes, again.levels) == (["light", "eye"], [0.5, 1.0])
    assert again.with_columns(["task0"]).axes == []


def _tensors(tensor: ForgettingTensor) -> list[torch.Tensor]:
    return [value for value in tensor.state_dict().values() if isinstance(value, torch.Tensor)]
