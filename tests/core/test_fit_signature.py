"""``clframe.fit`` writes its arguments out, and they are the fields of a run's description."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pydoc
from pathlib import Path

import clframe
from clframe import RunConfig, api
from clframe.config.setting_docs import arguments


def test_the_arguments_are_the_fields_of_run_config() -> None:
    *parameters, settings = inspect.signature(clframe.fit).parameters.values()
    fields = {field.name: field for field in dataclasses.fields(RunConfig)}
    assert [parameter.name for parameter in parameters] == list(fields)
    for parameter in parameters:
        assert parameter.default == fields[parameter.name].default, parameter.name
        assert parameter.annotation == fields[parameter.name].type, parameter.name
    assert settings.kind is settings.VAR_KEYWORD
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["stream", "strategy", "model"]


def test_an_editor_sees_them() -> None:
    """They are in the source and not put there after the definition."""
    assert not hasattr(clframe.fit, "__signature__")
    tree = ast.parse(Path(api.__file__).read_text(encoding="utf-8"))
    (fit,) = [node for node in tree.body if getattr(node, "name", "") == "fit"]
    assert isinstance(fit, ast.FunctionDef)
    written = [one.arg for one in (*fit.args.args, *fit.args.kwonlyargs)]
    assert written == [field.name for field in dataclasses.fields(RunConfig)]


def test_help_explains_every_argument() -> None:
    explained = arguments(inspect.getdoc(clframe.fit) or "")
    assert list(explained) == [field.name for field in dataclasses.fields(RunConfig)]
    assert all(explained.values())
    shown = pydoc.plain(pydoc.render_doc(clframe.fit))
    assert "stream: 'Named | Stream' = 'split_mnist'" in shown
    assert shown.index("Args:") < shown.index("Raises:") < shown.index("Example:")
