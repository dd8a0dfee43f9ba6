from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from lightning.fabric.utilities import registry as lightning_registry

from tests.helpers.processes import FOLDER, ProcessServer, session_server
from tests.helpers.virtual_device import virtual_card

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with tests that take minutes first, so that none of them is left for the end."""
    minutes: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("slow")
        if mark is not None:
            minutes[item.path] = max(minutes.get(item.path, 0), mark.kwargs.get("minutes", 0))
    items.sort(key=lambda item: -minutes.get(item.path, 0))


# Whenever a Fabric is made, Lightning reads files of all installed packages: 15 ms in each of some
# thousand runs, in which no package comes or goes that has callbacks.
lightning_registry.entry_points = functools.cache(lightning_registry.entry_points)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True, scope="session")
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither see nor touch the user's list of confirmed code; workers share a folder."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv(FOLDER, str(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base))
        yield


@pytest.fixture(scope="session")
def clframe_process() -> ProcessServer:
    """Start processes that need not import torch again."""
    return session_server()


@pytest.fixture
def quick_python(clframe_process: ProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clframe start its own processes, such as those of a sweep, by the process server."""
    monkeypatch.setattr("sys.executable", str(clframe_process.python))


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
    with virtual_card():
        yield request.param


@pytest.fixture
def load_benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a benchmark as running it would: anew, with its folder on the path."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for path in BENCHMARKS.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return importlib.import_module
