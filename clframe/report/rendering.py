"""Render the plain data of a page to HTML, with templates that users can edit.

`clframe report --write-templates DIR` writes copies; with `--templates DIR` the templates in that
folder replace clframe's own. They are Jinja templates: `page.html` is the frame, `run.html` and
`comparison.html` its content, `blocks.html` the look of each block, `style.css` the colors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clframe.errors import SettingError
from clframe.report.files import write_atomically
from clframe.report.page_blocks import Page

FOLDER = Path(__file__).with_name("templates")


def template_names() -> list[str]:
    """Return the file names of clframe's own templates."""
    return sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".html", ".css"))


def render(page: Page, templates: Path | None = None) -> str:
    """Return the page as HTML.

    Args:
        page: The content.
        templates: A folder with edited templates; clframe's own templates replace missing ones.

    Raises:
        SettingError: The folder has no template, or one of them is broken.
    """
    import jinja2

    folders = [FOLDER]
    if templates is not None:
        _check(templates)
        folders.insert(0, templates)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    try:
        return environment.get_template(f"{page.kind}.html").render(page=page)
    except jinja2.TemplateSyntaxError as error:
        where = error.filename or error.name
        raise SettingError(f"template {where}, line {error.lineno}: {error.message}") from error
    except Exception as error:
        if templates is None:
            raise  # a bug of clframe's
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SettingError(f"template {_place(error, templates)}: {reason}") from error


def _check(folder: Path) -> None:
    names = template_names()
    if not folder.is_dir():
        raise SettingError(
            f"--templates {folder} is not a folder; clframe report --write-templates {folder} "
            "writes copies to edit."
        )
    if not any((folder / name).is_file() for name in names):
        raise SettingError(
            f"--templates {folder} holds none of the templates {', '.join(names)}; clframe report "
            f"--write-templates {folder} writes copies to edit."
        )


def _place(error: BaseException, folder: Path) -> str:
    """Return the template's file and line of an error."""
    where, trace = str(folder), error.__traceback__
    while trace is not None:
        name: Any = trace.tb_frame.f_code.co_filename
        if name.endswith((".html", ".css")):
            where = f"{name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return where


def write_templates(folder: Path) -> list[Path]:
    """Write copies of clframe's own templates into a folder.

    Raises:
        SettingError: A file of that name already exists.
        RunFolderError: A file cannot be written.
    """
    names = template_names()
    for name in names:
        if (folder / name).exists():
            raise SettingError(f"{folder / name} already exists; name another folder.")
    written = []
    for name in names:
        write_atomically(folder / name, (FOLDER / name).read_bytes())
        written.append(folder / name)
    return written
