"""Every error a user can cause, under one root.

The command line turns any of these into one sentence on standard error and exit code 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ClframeError(Exception):
    """Something the user gave cannot be used; the message says what, where and what is right.

    Example:
        >>> import clframe
        >>> try:
        ...     clframe.fit("split_mnst")
        ... except clframe.ClframeError as error:
        ...     print(error)
        unknown stream 'split_mnst'; did you mean 'split_mnist'?
    """


class SettingError(ClframeError):
    """A setting has an unknown name, the wrong type or a value out of range.

    Example:
        >>> import clframe
        >>> try:
        ...     clframe.fit("split_mnist", max_epochs="many")
        ... except clframe.SettingError as error:
        ...     print("max_epochs" in str(error))
        True
    """


class UnknownNameError(ClframeError):
    """A stream, strategy, plugin, model, metric or logger of that name is not registered."""


class PluginError(ClframeError):
    """A plugin cannot be loaded, is written wrongly or cannot be combined with another.

    Example:
        >>> import clframe
        >>> try:
        ...     clframe.fit("split_mnist", plugin_path="nowhere.py")
        ... except clframe.PluginError as error:
        ...     print(error)
        plugin_path: cannot open 'nowhere.py': no such file
    """


class DataError(ClframeError):
    """Data is missing, unreadable or not what its place says it is.

    Example:
        >>> import clframe, torch
        >>> try:
        ...     clframe.stream_from((torch.zeros(3, 2), torch.tensor([0, 1])))
        ... except clframe.DataError as error:
        ...     print("refused")
        refused
    """


class RunFolderError(ClframeError):
    """A run folder cannot be written, read or continued."""


_HABITS: dict[str, tuple[str, ...]] = {
    "learning_rate": ("lr",),
    "epochs": ("max_epochs",),
    "n_epochs": ("max_epochs",),
    "num_epochs": ("max_epochs",),
    "train_epochs": ("max_epochs",),
    "steps": ("max_steps",),
    "iterations": ("max_steps",),
    "bs": ("batch_size",),
    "train_mb_size": ("batch_size",),
    "minibatch_size": ("batch_size",),
    "device": ("accelerator",),
    "cuda": ("accelerator=gpu",),
    "gpu": ("accelerator=gpu",),
    "gpus": ("devices",),
    "n_gpus": ("devices",),
    "fp16": ("precision=16-mixed",),
    "bf16": ("precision=bf16-mixed",),
    "amp": ("precision=16-mixed",),
    "wd": ("weight_decay",),
    "clip": ("gradient_clip_val",),
    "grad_clip": ("gradient_clip_val",),
    "max_grad_norm": ("gradient_clip_val",),
    "wandb": ("logger=wandb",),
    "use_wandb": ("logger=wandb",),
    "tensorboard": ("logger=tensorboard",),
    "optim": ("optimizer",),
    "lr_scheduler": ("scheduler",),
    "dataset": ("stream",),
    "benchmark": ("stream",),
    "data": ("stream",),
    "method": ("strategy",),
    "algorithm": ("strategy",),
    "algo": ("strategy",),
    "network": ("model",),
    "backbone": ("model",),
    "arch": ("model",),
    "n_tasks": ("n_experiences",),
    "num_tasks": ("n_experiences",),
    "output_dir": ("run_dir",),
    "out_dir": ("run_dir",),
    "save_dir": ("run_dir",),
    "data_path": ("data_dir",),
    "buffer_size": ("size", "per_class", "per_task"),
    "mem_size": ("size", "per_class", "per_task"),
    "memory_size": ("size", "per_class", "per_task"),
    "lambda": ("weight", "c"),
    "ewc_lambda": ("weight",),
    "e_lambda": ("weight",),
    "si_lambda": ("c",),
    "alpha": ("weight",),
    "cifar10": ("split_cifar10",),
    "cifar100": ("split_cifar100",),
    "mnist": ("split_mnist",),
    "fashion_mnist": ("split_fashion_mnist",),
    "fmnist": ("split_fashion_mnist",),
    "seq_mnist": ("split_mnist",),
    "seq_cifar10": ("split_cifar10",),
    "seq_cifar100": ("split_cifar100",),
    "perm_mnist": ("permuted_mnist",),
    "rot_mnist": ("rotated_mnist",),
    "openloris": ("openloris_illumination",),
    "libero": ("libero_spatial",),
    "metaworld": ("metaworld_mt10",),
    "behavior": ("behavior_12",),
    "imagefolder": ("folder",),
    "images": ("folder",),
    "finetune": ("naive",),
    "finetuning": ("naive",),
    "fine_tuning": ("naive",),
    "sequential": ("naive",),
    "joint": ("multitask",),
    "mtl": ("multitask",),
    "experience_replay": ("er",),
    "rehearsal": ("replay",),
    "der_pp": ("derpp",),
    "der++": ("derpp",),
    "a_gem": ("agem",),
    "ewc_online": ("online_ewc",),
    "ewc_on": ("online_ewc",),
    "synaptic_intelligence": ("si",),
    "learning_without_forgetting": ("lwf",),
    "resnet": ("resnet18",),
}
"""Names that other tools have taught people to type, and ours for the same, the likeliest first."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that was probably meant, or list the known names.

    >>> nearest("split_mnits", ["split_mnist", "permuted_mnist"])
    "did you mean 'split_mnist'?"
    >>> nearest("learning_rate", ["learner", "lr"])
    "did you mean 'lr'?"
    >>> nearest("zzz", ["b", "a"])
    'known: a, b'
    """
    names = sorted(known)
    habit = _HABITS.get(name.lower().replace("-", "_"), ())
    usual = [ours for ours in habit if ours.partition("=")[0] in names]
    close = usual or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + (", ".join(names) if names else "none")
