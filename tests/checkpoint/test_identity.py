"""What of a run's settings may differ when it is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clframe.checkpoint.identity import check_settings
from clframe.errors import RunFolderError

KEPT: dict[str, Any] = {"version": {"revision": "a"}, "trainer": {"max_epochs": 1}}


def test_a_setting_that_a_later_version_has_is_no_difference() -> None:
    later = {"version": {"revision": "b"}, "trainer": {"max_epochs": 1, "newer": False}}
    check_settings(KEPT, later, Path("run"))
    with pytest.raises(RunFolderError, match=r"trainer.newer was .* and is False"):
        check_settings(KEPT, later | {"version": {"revision": "a"}}, Path("run"))


@pytest.mark.parametrize("trainer", [{"max_epochs": 2}, {}])
def test_a_setting_that_was_kept_is_compared_in_any_version(trainer: dict[str, Any]) -> None:
    for revision in "ab":
        now = {"version": {"revision": revision}, "trainer": trainer}
        with pytest.raises(RunFolderError, match=r"trainer.max_epochs was 1 and is"):
            check_settings(KEPT, now, Path("run"))
