"""Strategies inside any PyTorch training code: a plain loop, Lightning, stable-baselines3, ..."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import nn

from clframe.attached.checks import check_attachable
from clframe.attached.host_learner import AttachedLearner, HostEngine, Loss, growing_stream
from clframe.attached.session import Attachment
from clframe.core.plugin import check_composition
from clframe.core.protocols import head_of
from clframe.core.registry import discover
from clframe.core.stream import SCENARIOS, Scenario
from clframe.core.trainer import TrainerSettings
from clframe.errors import PluginError, SettingError
from clframe.strategies import StrategyLike, compose
from clframe.utils.setting_checks import at_least

_ATTACHED: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def attach(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    strategy: StrategyLike = "naive",
    *,
    scenario: Scenario = "domain",
    tasks: int | Sequence[Sequence[int]] = 20,
    n_outputs: int | None = None,
    active_outputs: str = "seen",
    loss: Loss | None = None,
    batch_size: int = 128,
    max_epochs: int | None = None,
    max_steps: int | None = None,
    seed: int = 0,
    resume_within: bool = True,
    plugin_path: Sequence[str] = (),
) -> Attachment:
    """Let a strategy act inside another framework's training code, through torch's own hooks.

    Your loop stays as it is; only mark the beginning and the end of each experience. See
    docs/attach.md for Lightning, stable-baselines3, Hugging Face and LeRobot.

    >>> import clframe, torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), 0.1)
    >>> def train(x, y):
    ...     for _ in range(5):
    ...         optimizer.zero_grad()
    ...         torch.nn.functional.cross_entropy(model(x), y).backward()
    ...         optimizer.step()
    >>> with clframe.attach(model, optimizer, ["ewc"]) as cl:
    ...     for name in ("first", "second"):
    ...         x, y = torch.randn(20, 4), torch.arange(20) % 2
    ...         with cl.experience(name, (x, y)):
    ...             train(x, y)
    >>> cl.seen, cl.steps
    (['first', 'second'], 10)

    Args:
        model: The model to train, already on its device.
        optimizer: The optimizer of its parameters. Parameters outside of the optimizer are left
            alone.
        strategy: As in :func:`clframe.fit`: names, plugins, mappings with settings, or a list.
        scenario: ``domain`` leaves the outputs as they are. ``class`` masks the outputs of future
            classes and ``task`` those of other tasks, including in the outputs that your code gets.
        tasks: Maximum number of tasks, each with all outputs; or the output units of each task.
        n_outputs: Outputs of the model; None for those of its ``head`` or last linear layer.
        active_outputs: ``scenario="class"``: ``seen`` or ``all``, as in :func:`clframe.fit`.
        loss: ``loss(outputs, labels)`` for the samples of plugins; None for cross-entropy.
        batch_size: Batch size of the plugins' own phases, and of ``cl.batches``.
        max_epochs: Your epochs per experience; methods with a phase of their own use it.
        max_steps: The same in steps.
        seed: Seed of the plugins and of the order in ``cl.batches``.
        resume_within: Keep a copy of the model's weights at the start of each experience, which is
            needed to resume within one.
        plugin_path: Files or modules with your own plugins.

    Raises:
        ClframeError: A plugin cannot be attached, or something that it needs is missing.
    """
    if model in _ATTACHED:
        raise SettingError(
            f"a strategy is already attached to this {type(model).__name__}: name all plugins in "
            "one strategy, or close the other one first"
        )
    if scenario not in SCENARIOS:
        raise SettingError(f"scenario must be one of {', '.join(SCENARIOS)}, got '{scenario}'")
    if active_outputs not in ("seen", "all"):
        raise SettingError(f"active_outputs must be seen or all, got '{active_outputs}'")
    _check_host(model, optimizer)
    at_least(n_outputs, 1, "n_outputs")
    width = n_outputs or _outputs_of(model)
    if isinstance(tasks, int):
        at_least(tasks, 1, "tasks")
    elif not tasks or not all(0 <= unit < width for units in tasks for unit in units):
        raise SettingError(
            f"tasks must be a number, or the output units of each task from 0 to {width - 1}, got "
            f"{tasks!r}"
        )
    name, plugins = compose(strategy, discover(plugin_path))
    check_attachable(plugins)
    stream = growing_stream(scenario, tasks, width)
    check_composition(plugins, stream)
    settings = TrainerSettings(max_epochs=max_epochs, max_steps=max_steps, batch_size=batch_size)
    engine = HostEngine(model, settings)
    before = _Before(model)
    learner = AttachedLearner(model, optimizer, stream, plugins, engine, loss, active_outputs, seed)
    try:
        learner.plugins.hook.configure(learner=learner, stream=stream)
        before.check(learner, name)
    except BaseException:
        before.restore()
        raise

    def release() -> None:
        before.take_off_hooks()
        _ATTACHED.discard(model)

    attachment = Attachment(learner, resume_within, release)
    _ATTACHED.add(model)
    return attachment


class _Before:
    """The host's model as it was before plugins changed it.

    Args:
        model: The host's model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.learned = {name: (p, p.requires_grad) for name, p in model.named_parameters()}
        self.hooks = [
            (hooks, set(hooks))
            for module in model.modules()
            for hooks in (module._forward_hooks, module._forward_pre_hooks)
        ]

    def check(self, learner: nn.Module, strategy: str) -> None:
        """Refuse plugins that changed which parameters are trained."""
        now = {
            n.removeprefix("model."): (p, p.requires_grad) for n, p in learner.named_parameters()
        }
        same = now.keys() == self.learned.keys() and all(
            p is self.learned[n][0] and learned is self.learned[n][1]
            for n, (p, learned) in now.items()
        )
        if not same:
            raise PluginError(
                f"strategy '{strategy}' cannot be attached to another trainer: it adds or freezes "
                "parameters, which an existing optimizer does not follow; use it in "
                "clframe.fit"
            )

    def take_off_hooks(self) -> None:
        """Remove the hooks that plugins have put on the model's layers."""
        for hooks, there in self.hooks:
            for key in [key for key in hooks if key not in there]:
                del hooks[key]

    def restore(self) -> None:
        """Restore the model, as far as possible."""
        self.take_off_hooks()
        for parameter, learned in self.learned.values():
            parameter.requires_grad_(learned)


def _check_host(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Refuse a model and optimizer that a strategy cannot be attached to."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise SettingError(
            f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}; a "
            "wrapper often has it as its attribute 'optimizer'"
        )
    held = {p for group in optimizer.param_groups for p in group["params"]}
    if held.isdisjoint(model.parameters()):
        raise SettingError(
            f"the optimizer holds no parameter of the attached {type(model).__name__}"
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        processes = torch.distributed.get_world_size()
        if processes > 1:
            raise SettingError(
                f"attach works in one process, but {processes} train together; clframe.fit has "
                "trainer.devices"
            )


def _outputs_of(model: nn.Module) -> int:
    """Return the outputs of a model, from its last linear layer; 1 if it has none."""
    head = head_of(model)
    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    last = head if isinstance(head, nn.Linear) else (layers[-1] if layers else None)
    return 1 if last is None else last.out_features
