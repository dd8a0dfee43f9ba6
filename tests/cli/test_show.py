"""What the commands say of a result."""

from __future__ import annotations

from clframe.cli._show_result import headline


def test_liberos_metrics_are_told_where_there_are_some() -> None:
    assert "libero.nbt" not in headline({"gem": {"acc": 0.5}})
    text = headline({"libero": {"fwt": 0.7, "nbt": 0.25, "auc": None}})
    assert [line.split()[:2] for line in text.splitlines() if line[0] != " "] == [
        ["libero.fwt", "0.700"],
        ["libero.nbt", "0.250"],
    ]


def test_the_metrics_most_people_look_for_come_first() -> None:
    metrics = {
        "libero": {"fwt": 0.7},
        "openloris": {"accuracy": 0.5, "bwt": 0.1, "fwt": 0.25},
        "gem": {"acc": 0.386, "bwt": -0.5, "fwt": 0.0},
    }
    lines = headline(metrics).splitlines()
    assert lines[0] == "gem.acc                0.386  mean accuracy over all tasks at the end"
    assert [line.split()[0] for line in lines if line[0] != " "] == [
        "gem.acc",
        "gem.bwt",
        "openloris.accuracy",
        "openloris.fwt",
        "libero.fwt",
    ]


def test_what_robots_reach_is_called_success() -> None:
    line = headline({"gem": {"acc": 0.5}}, "success")
    assert line == "gem.acc                0.500  mean success over all tasks at the end"
