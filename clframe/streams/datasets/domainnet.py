"""DomainNet: 345 classes as clip art, infographics, paintings, doodles, photographs, sketches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clframe.core.stream import Scenario, Stream
from clframe.data.stream_from import Split
from clframe.errors import DataError
from clframe.streams.custom.image_data import ImageSettings
from clframe.streams.custom.listing import TEST, TRAIN, Entry
from clframe.streams.custom.stream import stream_of
from clframe.streams.datasets.folder_layout import Layout, lines

DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")


def domainnet(
    data_dir: Path,
    path: str | None = None,
    seed: int = 0,
    scenario: Scenario | None = None,
    domains: list[str] | None = None,
    images: ImageSettings = ImageSettings(size=224),
) -> Stream:
    """DomainNet: 345 classes in six domains, an experience for each domain.

    Peng et al., "Moment Matching for Multi-Source Domain Adaptation" (2019), with its own split.

    Args:
        data_dir: The data folder.
        path: The folder with the domains' folders and lists; null is ``domainnet`` in the data
            folder.
        seed: Has no effect.
        scenario: null is domain.
        domains: The domains to learn, in order; null uses all in the folder, in alphabetical order.
        images: How to read images.
    """
    root = LAYOUT.place(path, data_dir)
    entries = read(root)
    domains_found = {entry.columns["domain"] for entry in entries}
    for name in domains or ():
        if name not in domains_found:
            raise LAYOUT.missing(
                root, f"domain '{name}' (it has {', '.join(sorted(domains_found))})"
            )
    groups: list[Any] | None = None if domains is None else list(domains)
    if domains is not None:
        entries = [entry for entry in entries if entry.columns["domain"] in domains]
    split = Split("domain", groups, None, scenario, 0.2, None, seed)
    return stream_of("domainnet", entries, split, "domain", root, images)


def read(root: Path) -> list[Entry]:
    """List the images of the domains whose lists exist."""
    entries = []
    for domain in DOMAINS:
        lists = {split: root / f"{domain}_{split}.txt" for split in (TRAIN, TEST)}
        splits = [split for split, path in lists.items() if path.is_file()]
        if len(splits) == 1:
            other = TEST if splits == [TRAIN] else TRAIN
            raise LAYOUT.missing(root, f"the list {domain}_{other}.txt")
        for split in splits:
            for number, fields in lines(lists[split]):
                image = Path(fields[0])
                if len(image.parts) < 3:
                    raise DataError(
                        f"list '{lists[split]}', line {number}: '{image}' must be "
                        "DOMAIN/CLASS/image"
                    )
                columns = {"domain": domain}
                entries.append(Entry(root / image, image.parts[-2], split, columns))
    if not entries:
        raise LAYOUT.missing(root, f"lists such as {DOMAINS[0]}_train.txt")
    return entries


LAYOUT = Layout(
    "domainnet",
    "DomainNet",
    "domainnet",
    "each domain's folder and lists (clipart, clipart_train.txt, clipart_test.txt, ...)",
    read,
)
