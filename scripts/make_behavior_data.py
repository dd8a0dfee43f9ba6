"""Write the activities of BEHAVIOR and what their categories can do, as data of the package.

The folder must hold ``b100/NAME/problem0.bddl`` and ``b1k/NAME/problem0.bddl``, as the package
``bddl`` publishes them (1.0.1 and 3.6.0, MIT licence), and its LICENSE. What a category can do is
read off the roles it plays in the activities; the lists below add what no activity says.

    python scripts/make_behavior_data.py FOLDER
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path

from clframe.worlds.bddl import Leniency, Literal, Problem, parse

DATA = Path(__file__).parent.parent / "clframe" / "worlds" / "behavior" / "data"

# (predicate, place of the argument) -> what it shows about the category there.
ROLES = {
    ("inroom", 0): "fixture",
    ("inside", 1): "container",
    ("filled", 0): "container",
    ("contains", 0): "container",
    ("covered", 1): "substance",
    ("filled", 1): "substance",
    ("contains", 1): "substance",
    ("saturated", 1): "substance",
    ("insource", 1): "substance",
    ("open", 0): "openable",
    ("toggled_on", 0): "toggleable",
    ("saturated", 0): "soakable",
    ("soaked", 0): "soakable",
    ("folded", 0): "cloth",
    ("unfolded", 0): "cloth",
    ("draped", 0): "cloth",
    ("overlaid", 0): "cloth",
    ("broken", 0): "breakable",
}
# What the activities leave unsaid. A word stands for every category whose lemma it is.
BY_HAND = {
    "floor": "floor lawn driveway",
    "openable": "cabinet electric_refrigerator oven microwave dishwasher washer clothes_dryer car "
    "wardrobe toaster_oven deep-freeze grocery_fridge door window gate mailbox toolbox cooler "
    "cedar_chest recreational_vehicle cash_register",
    "toggleable": "sink stove oven microwave dishwasher washer clothes_dryer dryer grill toaster "
    "toaster_oven coffee_maker electric_kettle crock_pot rice_cooker waffle_iron popper "
    "sauna_heater wood_fireplace bathtub shower showerhead blender food_processor "
    "electric_mixer television_receiver computer desktop_computer electric_fan iron hand_blower",
    "heats_inside": "oven microwave toaster_oven wood_fireplace toaster waffle_iron popper",
    "heats_on_top": "stove grill wood_fireplace griddle",
    "heats_itself": "coffee_maker electric_kettle crock_pot rice_cooker",
    "cools": "electric_refrigerator deep-freeze grocery_fridge",
    "washes": "dishwasher washer",
    "dries": "clothes_dryer",
    "tap": "sink bathtub shower showerhead",
    "slicer": "knife carving_knife table_knife parer pocketknife shears ax saw clipper pruner "
    "razor chisel wire_cutter",
    "cleaner": "rag towel dishtowel bath_towel hand_towel paper_towel sponge scrub_brush brush "
    "broom vacuum swab toothbrush squeegee blackboard_eraser eraser pipe_cleaner loofa "
    "piece_of_cloth napkin dinner_napkin tissue steel_wool emery_paper scraper dustpan rake "
    "shovel spatula leaf_blower hoe trowel lawn_mower toilet_tissue hose pad paintbrush",
    "soakable": "rag towel dishtowel bath_towel hand_towel paper_towel sponge scrub_brush brush "
    "swab toothbrush squeegee loofa piece_of_cloth napkin dinner_napkin steel_wool tea_bag "
    "paintbrush pot_plant pipe_cleaner",
    "presses": "iron",
    "dries_by_air": "hand_blower",
    "sands": "emery_paper",
    "mends": "hammer screwdriver wrench allen_wrench drill adhesive_material tape",
    "loose": "dust dirt sand crumb breadcrumb lint snow debris hair coffee_grounds hay bunchgrass "
    "flour white_rice petfood sodium_carbonate fecal_matter salt rosemary soil mulch ash",
    "mark": "wrinkle incision",
    "movable": "chair swivel_chair armchair lawn_chair shopping_cart stool wall_clock mirror",
    "vehicle": "car recreational_vehicle pickup",
}
STUCK = (
    "stain mud mold mildew rust grease tarnish adhesive_material ink polish wax_remnant "
    "stucco toothpaste house_paint spray_paint sealant lotion"
)
# Containers that no activity fills or puts things into, but the wider world would.
MORE_CONTAINERS = "toaster waffle_iron coffee_maker rice_cooker popper griddle drawer dish_rack"


def main() -> None:
    """Write the archive, the abilities and the licence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where b100/, b1k/ and LICENSE are")
    folder = parser.parse_args().folder
    texts = {
        corpus: {
            path.parent.name: path.read_text(encoding="utf-8")
            for path in sorted((folder / corpus).glob("*/problem0.bddl"))
        }
        for corpus in ("b100", "b1k")
    }
    DATA.mkdir(parents=True, exist_ok=True)
    packed = json.dumps(texts, ensure_ascii=False).encode()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    (DATA / "activities.json.xz").write_bytes(lzma.compress(packed, filters=filters))
    problems = [
        parse(text, lenient=Leniency.ALL) for group in texts.values() for text in group.values()
    ]
    lines = ",\n".join(
        f'"{name}": {json.dumps(sorted(members))}' for name, members in abilities(problems).items()
    )
    (DATA / "abilities.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    shutil.copyfile(folder / "LICENSE", DATA / "LICENSE")


def abilities(problems: list[Problem]) -> dict[str, set[str]]:
    """Ability -> categories that have it; ``category`` lists all, ``room`` the kinds of room."""
    found: dict[str, set[str]] = {"category": set(), "room": set()}
    for ability in (*ROLES.values(), *BY_HAND, "stuck", "liquid"):
        found.setdefault(ability, set())
    for problem in problems:
        types = dict(problem.objects)
        found["category"].update(types.values())
        for literal in literals_of(problem):
            if literal[0] == "inroom":
                found["room"].add(literal[2])
            for place, term in enumerate(literal[1:]):
                role = ROLES.get((literal[0], place))
                if role:
                    found[role].add(types[term])
    by_lemma: dict[str, set[str]] = {}
    for category in found["category"]:
        by_lemma.setdefault(category.rsplit(".n.", 1)[0], set()).add(category)
    for ability, words in {**BY_HAND, "stuck": STUCK}.items():
        for word in words.split():
            found[ability] |= by_lemma.get(word, set())
    for word in MORE_CONTAINERS.split():
        found["container"] |= by_lemma.get(word, set())
    for derived in ("half__", "diced__", "cooked__", "melted__"):
        members = {name for name in found["category"] if name.startswith(derived)}
        if derived != "half__":
            found["substance"] |= members
    found["substance"] -= found["fixture"]
    for ability in ("stuck", "loose", "mark"):
        found[ability] &= found["substance"]
    found["liquid"] = found["substance"] - found["stuck"] - found["loose"] - found["mark"]
    return found


def literals_of(problem: Problem) -> Iterator[Literal]:
    """The literals of the start, of either sign, and the atoms of the goal."""
    yield from (entry.literal for entry in problem.init_literals)
    yield from problem.goal.atoms


if __name__ == "__main__":
    main()
