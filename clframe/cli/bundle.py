"""``clframe bundle RUN``: a run in one file that anyone can verify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.errors import SettingError
from clframe.utils.console import print_out


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "bundle",
        "Pack a finished run into one file: settings, matrix, versions, and the checkpoints before "
        "and after chosen experiences, so that clframe verify FILE can retrain these.",
        [
            ("clframe bundle RUN", "RUN.zip, with the last experience"),
            ("clframe bundle RUN --experiences 1,3 --out mine.zip", "with the first and third"),
        ],
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--experiences",
        default="",
        metavar="K,...",
        help="which can be verified; default: the last",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the .zip file; default: RUN.zip")
    return parser


def main(argv: Sequence[str]) -> int:
    """Write the bundle and print its name."""
    arguments = parser().parse(argv)
    numbers = [word.strip() for word in arguments.experiences.split(",") if word.strip()]
    for number in numbers:
        if not number.isdecimal():
            raise SettingError(f"--experiences takes numbers such as 1,3, got '{number}'")
    folder = arguments.run
    out = arguments.out or folder.resolve().with_name(f"{folder.resolve().name}.zip")
    from clframe.reproduce.bundle import pack

    chosen = pack(folder, out, [int(number) for number in numbers])
    which = ", ".join(map(str, chosen))
    size = f"{out.stat().st_size / 1e6:.1f} MB"
    print_out(f"{out} ({size}; clframe verify can learn experience {which} again)")
    return 0
