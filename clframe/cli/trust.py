"""``clframe trust RUN``: confirm the code that comes with somebody else's run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.errors import SettingError
from clframe.utils.console import print_out


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "trust",
        "Show the plugin files and modules that a run names, and confirm that they may be "
        "executed on this machine. Until then eval, verify, fork and resume refuse such a run. "
        "Code of your own runs is confirmed when they begin.",
        [
            ("clframe trust RUN", "show the code and ask"),
            ("clframe trust bundle.zip --yes", "confirm without a prompt"),
        ],
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a bundle of one")
    parser.add_argument("--yes", action="store_true", help="confirm without a prompt")
    return parser


def main(argv: Sequence[str]) -> int:
    """Show the code, ask, and record the answer; return 1 if the answer is no."""
    arguments = parser().parse(argv)
    from clframe.config.read_config import read_content
    from clframe.reproduce.bundle import opened
    from clframe.runs.received import confirm_run, modules, places, plugin_files
    from clframe.utils.trust import list_path, origin_of, trusted

    with opened(arguments.run) as folder:
        content = read_content(folder)
        files, confirmed = plugin_files(content, folder), trusted()
        for file in files:
            mark = "confirmed" if file.sha256 in confirmed.files else "new"
            print_out(
                f"{file.sha256}  {file.size:>9,} bytes  {mark:<9}  {_shown(file.path, arguments)}"
            )
        for module in modules(content):
            mark = "confirmed" if confirmed.has_module(module) else "new"
            print_out(f"module {module} from {origin_of(module) or 'nowhere'}  {mark}")
        for target in places(content):
            mark = "confirmed" if target in confirmed.places else "new"
            print_out(f"a logger writes to {target}  {mark}")
        new = [file for file in files if file.sha256 not in confirmed.files]
        others = [name for name in modules(content) if not confirmed.has_module(name)]
        others += [name for name in places(content) if name not in confirmed.places]
        if not new and not others:
            print_out(f"nothing to confirm in {arguments.run}")
            return 0
        if not arguments.yes and not _agreed(arguments.run):
            print_out("nothing was confirmed")
            return 1
        confirm_run(content, {file.sha256: file.path.name for file in new})
    print_out(f"confirmed in {list_path()}")
    return 0


def _shown(path: Path, arguments: object) -> str:
    """Return the path of a file to read; for a bundle, its name in the bundle."""
    run: Path = arguments.run  # type: ignore[attr-defined]
    return f"{path.parent.name}/{path.name} in {run}" if run.is_file() else str(path)


def _agreed(run: Path) -> bool:
    """Ask on the terminal.

    Raises:
        SettingError: There is no terminal.
    """
    if not sys.stdin.isatty():
        raise SettingError(
            f"there is no terminal to ask on: read the files, then run clframe trust {run} --yes"
        )
    sys.stdout.write("This code will run with your rights. Have you looked at it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
