"""From the plain data of a page to HTML, by templates that users can edit.

`clframe report --write-templates DIR` writes copies; with `--templates DIR` those that are in that
folder take the place of clframe's own. They are Jinja templates: `page.html` is the frame,
`run.html` and `comparison.html` say what is in it, `blocks.html` how each block looks, `style.css`
the colors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clframe.errors import SettingError
from clframe.report.files import write_atomically
from clframe.report.page_blocks import Page

FOLDER = Path(__file__).with_name("templates")


def template_names() -> list[str]:
    """The files of clframe's own templates."""
    return sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".html", ".css"))


def render(page: Page, templates: Path | None = None) -> str:
    """The page as HTML.

    Args:
        page: What it shows.
        templates: A folder with edited templates; those that are not there are clframe's own.

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
            raise  # a defect of ours
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SettingError(f"template {_place(error, templates)}: {reason}") from error


def _check(folder: Path) -> None:
    names = template_names()
    if not folder.is_dir():
        raise SettingError(
            f"--templates {folder} is no folder; clframe report --write-templates {folder} writes "
            "copies to edit."
        )
    if not any((folder / name).is_file() for name in names):
        raise SettingError(
            f"--templates {folder} holds none of the templates {', '.join(names)}; clframe report "
            f"--write-templates {folder} writes copies to edit."
        )


def _place(error: BaseException, folder: Path) -> str:
    """The template's file and line in which an error arose."""
    found, trace = str(folder), error.__traceback__
    while trace is not None:
        name: Any = trace.tb_frame.f_code.co_filename
        if name.endswith((".html", ".css")):
            found = f"{name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


def write_templates(folder: Path) -> list[Path]:
    """Put copies of clframe's own templates into a folder.

    Raises:
        SettingError: A file of that name is there already.
        RunFolderError: A file cannot be written.
    """
    names = template_names()
    for name in names:
        if (folder / name).exists():
            raise SettingError(f"{folder / name} is there already; name another folder.")
    written = []
    for name in names:
        write_atomically(folder / name, (FOLDER / name).read_bytes())
        written.append(folder / name)
    return written
