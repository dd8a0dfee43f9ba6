from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
VIRTUAL_GPU = Path(__file__).parent / "device" / "virtual.py"


@pytest.fixture(autouse=True)
def _no_foreign_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither see nor touch the user's data folder, W&B account or working directory."""
    monkeypatch.setenv("CLFRAME_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    torch.set_num_threads(1)


@pytest.fixture(params=["cpu", "cuda"])
def accelerator(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every kind of device; a virtual GPU where there is no real one."""
    if request.param == "cpu" or torch.cuda.is_available():
        yield request.param
        return
    virtual = runpy.run_path(str(VIRTUAL_GPU))
    with virtual["virtual_card"]():
        yield request.param


@pytest.fixture
def load_benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a benchmark as running it would: anew, with its folder on the path."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for path in BENCHMARKS.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return importlib.import_module
