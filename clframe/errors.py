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
        plugin_path: there is no file 'nowhere.py'
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


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or which names there are.

    >>> nearest("split_mnits", ["split_mnist", "permuted_mnist"])
    "did you mean 'split_mnist'?"
    >>> nearest("zzz", ["b", "a"])
    'known: a, b'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + (", ".join(names) if names else "none")
