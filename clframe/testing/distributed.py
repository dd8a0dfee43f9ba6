"""The items of a plugin's contract for several processes, or several seeds at once.

::

    python -m clframe.testing.distributed FOLDER NAME SCENARIO [FILE...]

runs the plugin NAME on the toy stream in two processes; each stores its result in FOLDER.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clframe.config.run_config import RunConfig
from clframe.core.learner import Learner
from clframe.core.plugin import Plugin
from clframe.core.registry import Registry, discover
from clframe.core.results import Result
from clframe.run import run
from clframe.strategies import compose
from clframe.sweep.seed_group import SeedGroup, unsupported_reason
from clframe.testing.plugins import PluginContract
from clframe.testing.result import Broken, NotChecked, require
from clframe.testing.toy import prepare_toy, toy_model, toy_stream
from clframe.utils.console import print_err

TOLERANCE = 1e-3
"""Tolerance of weights, relative to the largest of a tensor: sums have another order."""
_RESULT = "rank0.pt"
_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")


def made(name: str, registry: Registry) -> list[Plugin]:
    """Return the plugin of a name, after the plugins that it needs."""
    needs = getattr(registry.get("plugin", name).factory, "needs", ())
    return compose([*needs, name], registry)[1]


def two_processes(contract: PluginContract, files: Sequence[str]) -> str:
    """Check that two processes that share each batch end with the weights of one.

    Args:
        contract: Contract of the plugin.
        files: Files of the plugin, if it is not installed.
    """
    plugin = contract.plugin
    if not plugin.capabilities.distributed:
        raise NotChecked("its capabilities say distributed=False")
    if (os.cpu_count() or 1) < 2:
        raise NotChecked("two processes need two processor cores")
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            folder,
            plugin.name,
            contract.scenario,
            *(str(Path(f).resolve()) for f in files),
        ]
        environment = {k: v for k, v in os.environ.items() if k not in _VARIABLES}
        done = subprocess.run(
            [sys.executable, "-m", "clframe.testing.distributed", *arguments],
            env={**environment, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            lines = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
            reason = lines[-1].removeprefix("clframe: ")
            raise Broken(
                f"plugin '{plugin.name}' fails in two processes ({reason}): make it work, or "
                "write capabilities = Capabilities(distributed=False)"
            )
        saved = torch.load(Path(folder, _RESULT), weights_only=True)
    result, learner = contract.whole_run()
    _compare(plugin.name, saved, result, learner)
    return "the weights of one process"


def _compare(name: str, saved: dict[str, Any], result: Result, learner: Learner) -> None:
    advice = (
        "use the whole batch that hooks are given, draw from learner.generator, or "
        "write capabilities = Capabilities(distributed=False)"
    )
    for key, value in learner.state_dict().items():
        near = TOLERANCE * float(value.double().abs().max()) if value.numel() else 0.0
        other = saved["weights"][key]
        require(
            other.shape == value.shape
            and torch.allclose(other.double(), value.cpu().double(), rtol=TOLERANCE, atol=near),
            f"plugin '{name}' learns another '{key}' in two processes than in one: {advice}",
        )
    apart = np.abs(np.asarray(saved["matrix"]) - result.matrix.values).max()
    require(apart < 0.03, f"plugin '{name}' gives another matrix in two processes: {advice}")


def batched_seeds(contract: PluginContract, files: Sequence[str]) -> str:
    """Check that two seeds trained as one model end as two separate runs do.

    Args:
        contract: Contract of the plugin.
        files: Files of the plugin, if it is not installed.
    """
    plugin = contract.plugin
    if not plugin.capabilities.batched_seeds:
        raise NotChecked("its capabilities say batched_seeds=False; seeds run one by one")
    stream = toy_stream(contract.scenario)
    configs = [
        RunConfig.of(
            stream,
            [*plugin.needs, plugin.name],
            toy_model([plugin], stream),
            optimizer={"name": "adam", "lr": 0.01},
            trainer={"max_epochs": 2, "batch_size": 16, "batched": True},
            logger=None,
            run_dir=False,
            progress=False,
            plugin_path=list(files),
            seed=seed,
        )
        for seed in (0, 1)
    ]
    group = SeedGroup(configs)
    reason = unsupported_reason(group.runs)
    if reason is not None:
        raise NotChecked(reason)
    results = group.run()
    alone = contract.whole_run()[0]  # of seed 0
    apart = float(np.abs(results[0].matrix.values - alone.matrix.values).max())
    require(
        apart < 0.03,
        f"plugin '{plugin.name}' learns something else when two seeds are one model: use only "
        "the hooks of a step, or leave the capability 'batched_seeds' out",
    )
    return "two seeds as one model, the matrix of separate runs"


def main(arguments: Sequence[str]) -> int:
    """Run a plugin in two processes and store the result of each."""
    folder, name, scenario, *files = arguments
    chosen: Any = scenario
    trainer = {"devices": 2, "strategy": "ddp", "accelerator": "cpu"}
    prepared = prepare_toy(made(name, discover(files)), toy_stream(chosen), trainer=trainer)
    result = run(prepared.learner, prepared.stream, "toy")
    weights = {key: value.cpu() for key, value in prepared.learner.state_dict().items()}
    content = {"matrix": result.matrix.values.tolist(), "weights": weights}
    torch.save(content, Path(folder) / f"rank{os.environ.get('LOCAL_RANK', '0')}.pt")
    return 0


if __name__ == "__main__":
    from clframe.errors import ClframeError

    try:
        sys.exit(main(sys.argv[1:]))
    except ClframeError as error:
        print_err(f"clframe: {error}")
        sys.exit(2)
