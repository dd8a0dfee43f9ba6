"""``clframe new KIND NAME``: write working files to start from.

The texts are in ``templates/``; ``$name`` and similar fields are derived from the name.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import keyword
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from clframe.cli.parser import Parser
from clframe.errors import RunFolderError, SettingError
from clframe.utils.console import print_out
from clframe.utils.files import sync_folder, write_text

FILES: dict[str, dict[str, str]] = {
    "plugin": {
        "$name.py": "plugin.py",
        "test_$name.py": "test_plugin.py",
        "configs/strategy/${name}_replay.yaml": "plugin.yaml",
    },
    "stream": {
        "$name.py": "stream.py",
        "test_$name.py": "test_stream.py",
        "configs/stream/${name}_short.yaml": "stream.yaml",
    },
    "model": {
        "$name.py": "model.py",
        "test_$name.py": "test_model.py",
        "configs/model/${name}_small.yaml": "model.yaml",
    },
    "metric": {"$name.py": "metric.py", "test_$name.py": "test_metric.py"},
    "package": {
        "$project/pyproject.toml": "package/pyproject.toml",
        "$project/README.md": "package/README.md",
        "$project/.gitignore": "package/gitignore",
        "$project/src/$package/__init__.py": "package/init.py",
        "$project/src/$package/$name.py": "plugin.py",
        "$project/src/$package/py.typed": "",
        "$project/tests/test_$name.py": "test_plugin.py",
    },
}
"""By kind: the files to write, and the templates of their texts."""

NEXT: dict[str, Sequence[tuple[str, str]]] = {
    "plugin": [
        ("try it", "clframe fit plugin_path=$name.py strategy=$name"),
        ("with a memory", "clframe fit --config-dir configs plugin_path=$name.py $more"),
        ("check it", "clframe check $name.py"),
        ("look inside", "clframe trace plugin_path=$name.py strategy=$name"),
        ("test it", "pytest test_$name.py"),
    ],
    "stream": [
        ("try it", "clframe fit plugin_path=$name.py stream=$name strategy=er"),
        ("shorter", "clframe fit --config-dir configs plugin_path=$name.py $more"),
        ("check it", "clframe check $name.py"),
        ("test it", "pytest test_$name.py"),
    ],
    "model": [
        ("try it", "clframe fit plugin_path=$name.py model=$name strategy=er"),
        ("smaller", "clframe fit --config-dir configs plugin_path=$name.py $more"),
        ("check it", "clframe check $name.py"),
        ("test it", "pytest test_$name.py"),
    ],
    "metric": [
        ("try it", "clframe fit plugin_path=$name.py strategy=er"),
        ("check it", "clframe check $name.py"),
        ("test it", "pytest test_$name.py"),
    ],
    "package": [
        ("install it", "pip install -e $project"),
        ("try it", "clframe fit strategy=$name"),
        ("check it", "clframe check $name"),
        ("test it", "pytest $project"),
        ("build it", "pip wheel --no-deps -w dist $project/"),
    ],
}
"""By kind: the commands to show."""
MORE = {
    "plugin": "strategy=${name}_replay",
    "stream": "stream=${name}_short strategy=er",
    "model": "model=${name}_small strategy=er",
}
"""By kind: the override that chooses the written config file."""
_SUMMARY = {
    "plugin": "a plugin that works as it is, its test, and a strategy with it in configs/",
    "stream": "a stream of data of your own, its test, and a shorter one in configs/",
    "model": "a network, its test, and a smaller one in configs/",
    "metric": "a metric of the finished run, and its test",
    "package": "an installable package with a plugin: pyproject.toml with its "
    "entry point, src/, tests/ and README.md",
}


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser("new", "Write files to start from into the current folder.")
    for kind, text in _SUMMARY.items():
        first = next(iter(FILES[kind])) if kind != "package" else "$project"
        written = Template(first).substitute(names("my_method"))
        subparser = parser.add_subcommand(
            kind,
            f"Write {text}.",
            [(f"clframe new {kind} my_method", f"writes {written} and related files")],
        )
        subparser.add_argument("name", metavar="NAME", help="letters, digits and underscores")
    return parser


def names(name: str) -> dict[str, str]:
    """Return the template fields for ``$name`` and values derived from it."""
    return {
        "name": name,
        "title": "".join(word[:1].upper() + word[1:] for word in name.split("_")),
        "package": f"clframe_{name}",
        "project": f"clframe-{name.replace('_', '-')}",
    }


def main(argv: Sequence[str]) -> int:
    """Write the files into the current folder and print how to use them."""
    arguments = parser().parse(argv)
    kind, name = arguments.subcommand, checked_name(arguments.name, arguments.subcommand)
    values = names(name)
    module = f"{values['package']}.{name}" if kind == "package" else name
    imported = values["title"] if kind in ("plugin", "package") else name
    values["import_it"] = f"from {module} import {imported}"
    values["more"] = Template(MORE.get(kind, "")).substitute(values)
    values["test"] = f"tests/test_{name}.py" if kind == "package" else f"test_{name}.py"
    write({Path(fill(path, values)): text(of, values) for path, of in FILES[kind].items()})
    written = [fill(path, values) for path in FILES[kind]]
    listed = f"{values['project']}/" if kind == "package" else _and(written)
    print_out(f"wrote {listed}")
    for step, command in NEXT[kind]:
        print_out(f"  {step + ':':<17}{fill(command, values)}")
    return 0


def checked_name(typed: str, kind: str) -> str:
    """Return the name in lower case with underscores.

    Raises:
        SettingError: It cannot be the name of a module, or be typed on the command line.
    """
    name = typed.lower().replace("-", "_")
    name = name.removeprefix("clframe_") if kind == "package" else name
    if (
        len(name) > 30
        or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)
        or keyword.iskeyword(name)
    ):
        raise SettingError(
            f"'{typed}' cannot be a {kind}'s name; use at most 30 letters, digits and single "
            "underscores, starting with a letter"
        )
    if kind != "package" and (name in sys.stdlib_module_names or name in ("clframe", "torch")):
        raise SettingError(
            f"'{typed}' cannot be a {kind}'s name: a file {name}.py would hide the module of that "
            f"name; choose another, such as my_{name}"
        )
    return name


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template's text with the fields filled in."""
    return Template(template).substitute(values)


def text(template: str, values: Mapping[str, str]) -> str:
    """Render the template, or return an empty string if there is none."""
    if not template:
        return ""
    file = importlib.resources.files("clframe.cli") / "templates" / f"{template}.txt"
    return fill(file.read_text(encoding="utf-8"), values)


def write(files: Mapping[Path, str]) -> None:
    """Write all files, or none if one exists already or cannot be written.

    Raises:
        RunFolderError: Names the file and the reason.
    """
    for path in files:
        top = path.parts[0] if path.parts[0].startswith("clframe-") else path
        if os.path.lexists(top):
            raise RunFolderError(f"'{top}' exists already; choose another name or remove it")
    made: list[Path] = []
    try:
        for path, content in files.items():
            for folder in reversed(path.parents):
                if not folder.exists():
                    folder.mkdir()
                    made.append(folder)
            # Written under another name first: nobody sees a partial file or loses an existing one.
            draft = path.with_name(f".{path.name}.new")
            made.append(draft)
            write_text(draft, content)
            try:
                os.link(draft, path)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                shutil.copyfile(draft, path)
            made.append(path)
            draft.unlink()
            made.remove(draft)
            sync_folder(path.parent)
    except BaseException as error:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        if isinstance(error, OSError):
            where = error.filename2 or error.filename or "the files"
            raise RunFolderError(f"'{where}' cannot be written here: {error.strerror}") from error
        raise


def _and(listed: Sequence[str]) -> str:
    return f"{', '.join(listed[:-1])} and {listed[-1]}"
