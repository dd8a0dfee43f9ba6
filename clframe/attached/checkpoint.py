"""The state of an attached strategy, for the host's own checkpoint.

Within an experience it holds two states: the current one, and the one at the experience's start,
because plugins make some objects again when an experience begins (a teacher, the start of a path).
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from clframe.attached.host_learner import AttachedLearner
from clframe.attached.torch_hooks import Passes
from clframe.checkpoint.snapshot import clone
from clframe.core.stream import Experience, Task
from clframe.data.dataset import Data
from clframe.errors import SettingError

VERSION = 1


class Attachment(Protocol):
    """An attached strategy, as far as its state is concerned."""

    learner: AttachedLearner
    passes: Passes
    epoch_steps: int
    within: dict[str, Any] | None
    pending: dict[str, Any] | None

    def place_of(self, name: str) -> Task:
        """Return the task of this name."""


def beginning(learner: AttachedLearner) -> dict[str, Any]:
    """Return the state at the beginning of an experience."""
    return {
        "model": clone(dict(learner.model.state_dict())),
        "plugins": clone(learner.plugins.state_dict()),
        "generator": learner.generator.get_state(),
    }


def capture(attachment: Attachment) -> dict[str, Any]:
    """Return the current state."""
    learner, passes = attachment.learner, attachment.passes
    if passes.active and attachment.within is None:
        raise SettingError(
            "the state cannot be saved within an experience with resume_within=False: "
            "save it between two experiences"
        )
    experiences = learner.stream.experiences
    return {
        "version": VERSION,
        "plugins": clone(learner.plugins.state_dict()),
        "generator": learner.generator.get_state(),
        "experiences": [
            {
                "name": experience.name,
                "task": experience.tasks[0].name,
                "units": None if experience.units is None else list(experience.units),
            }
            for experience in experiences
        ],
        "seen": len(learner.seen),
        "within": attachment.within if passes.active else None,
        "epoch": learner.epoch,
        "epoch_steps": attachment.epoch_steps,
        "steps": learner.global_steps,
        "samples": learner.samples,
    }


def restore(attachment: Attachment, state: dict[str, Any]) -> None:
    """Continue from a state."""
    learner = attachment.learner
    if learner.experience is not None:
        raise SettingError("load the state before the first experience begins")
    if state.get("version") != VERSION:
        raise SettingError(
            f"the state has version {state.get('version')}; this version of clframe reads {VERSION}"
        )
    names, there = list(state["plugins"]), [p.name for p in learner.plugins.ordered]
    if names != there:
        raise SettingError(
            f"the state is of strategy {'+'.join(names) or 'naive'}, but "
            f"{'+'.join(there) or 'naive'} is attached"
        )
    experiences: Any = learner.stream.experiences
    for index, entry in enumerate(state["experiences"]):
        units = None if entry["units"] is None else tuple(entry["units"])
        task = attachment.place_of(entry["task"])
        past = Experience(index, entry["name"], (task,), _data_now(attachment), {}, units)
        experiences.append(past)
        learner.activate(past)
    learner.state.seen.extend(experiences[: state["seen"]])
    if learner.seen:
        learner.state.experience = learner.seen[-1]
    learner.state.global_steps, learner.state.samples = state["steps"], state["samples"]
    if state["within"] is None:
        del experiences[state["seen"] :]  # An experience that an exception ended was not learned.
        _put(learner, state)
    else:
        attachment.pending = state


def begin_again(attachment: Attachment, experience: Experience) -> None:
    """Begin the experience as in the earlier run, then continue from its saved state."""
    learner, state = attachment.learner, attachment.pending
    assert state is not None
    model, engine = learner.model, learner.host_engine
    now = clone(dict(model.state_dict()))
    model.load_state_dict(state["within"]["model"])
    _put(learner, state["within"])
    engine.keep_optimizer = True
    try:
        learner.plugins.hook.before_experience(learner=learner, experience=experience)
    finally:
        engine.keep_optimizer = False
        model.load_state_dict(now)
    _put(learner, state)
    learner.state.epoch = state["epoch"]
    attachment.epoch_steps = state["epoch_steps"]
    attachment.within, attachment.pending = state["within"], None


def _put(learner: AttachedLearner, state: dict[str, Any]) -> None:
    learner.plugins.load_state_dict(_on(state["plugins"], learner.engine.device))
    learner.generator.set_state(state["generator"].cpu())


def _on(value: Any, device: torch.device) -> Any:
    """Return a copy with its own tensors on a device."""
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
    if isinstance(value, dict):
        return {key: _on(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_on(item, device) for item in value]
    return value


def _data_now(attachment: Attachment) -> Any:
    """Return data for a past experience: gone, but stored like the current experience's data."""

    def load() -> Data:
        if attachment.passes.data is None:
            raise SettingError(
                "a loaded memory needs to know how inputs are stored: give the current "
                "experience data="
            )
        return attachment.passes.data

    return load
