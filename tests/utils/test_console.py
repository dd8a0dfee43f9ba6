"""What a person sees in the terminal."""

from __future__ import annotations

from clframe.utils.console import matrix_table


def test_long_names_are_numbered() -> None:
    names = ["open_the_middle_drawer_of_the_cabinet", "turn_on_the_stove"]
    text = matrix_table(["before", *names], names, [[0.0, None], [1.0, None], [0.5, 0.9]])
    assert text.splitlines() == [
        "           #1     #2",
        "before  0.000      -",
        "#1      1.000      -",
        "#2      0.500  0.900",
        "",
        "#1  open_the_middle_drawer_of_the_cabinet",
        "#2  turn_on_the_stove",
    ]


def test_a_task_that_comes_back_keeps_its_name_in_its_row() -> None:
    name = "open_the_middle_drawer_of_the_cabinet"
    lines = matrix_table([name, f"{name} (2)"], [name], [[0.0], [1.0]]).splitlines()
    assert lines[2].startswith(f"{name} (2)")
