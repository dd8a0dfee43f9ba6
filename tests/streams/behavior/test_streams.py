"""Activities as streams: choices, their mask and vector, imitation, measures, bad files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")
pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

from gymnasium.utils.env_checker import check_env

import clframe
from clframe.cli.main import main
from clframe.errors import DataError, SettingError
from clframe.metrics import behavior as metrics
from clframe.metrics.behavior_file import read_episode, write_episode
from clframe.plugins.builtin.rollouts import _means
from clframe.streams.behavior import robot_tasks
from clframe.streams.behavior.choices import ChoiceEnv
from clframe.streams.behavior.efficiency import METRICS
from clframe.streams.behavior.stream import TWELVE
from clframe.testing import check_stream, prepare
from clframe.worlds.behavior import corpus, features
from clframe.worlds.behavior.generate import generated
from clframe.worlds.behavior.layout import SIX, VERBS
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.sampling import sample
from clframe.worlds.behavior.verbs import PRIMITIVES, Verb

TWO = ["moving_boxes_to_storage", "bringing_in_wood"]
ROOT = Path(__file__).parents[3]


def learn(strategy: Any = "naive", **settings: Any) -> Any:
    stream = {"name": "behavior_12", "activities": TWO, "num_demos": 8, "eval_episodes": 8}
    return clframe.fit(
        stream | settings.pop("stream", {}),
        strategy,
        settings.pop("model", {"name": "categorical", "hidden": [64]}),
        run_dir=False,
        progress=False,
        logger=None,
        optimizer={"name": "adam", "lr": 3e-3},
        **{"max_epochs": 30, **settings},
    )


# ------------------------------------------------------------ choices


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_accepts_it() -> None:
    check_env(ChoiceEnv(("b100", "picking_up_trash"), 50, 12, "six"))


@pytest.mark.parametrize(
    ("activity", "primitives"),
    [(("b100", "setting_up_candles"), "six"), (("b100", "cleaning_kitchen_cupboard"), "all")],
)
def test_the_mask_is_what_the_checks_of_the_primitives_say(
    activity: tuple[str, str], primitives: Any
) -> None:
    slots = 20
    env = ChoiceEnv(activity, 50, slots, primitives)
    rng = np.random.default_rng(0)
    state = env.reset(seed=4)[0]["state"]
    for _ in range(25):
        mask = state[: len(env.verbs) * slots]
        assert set(np.unique(mask)) <= {0.0, 1.0}
        assert (mask == env.action_masks()).all()
        expected = np.zeros_like(mask)
        for verb, slot in itertools.product(env.verbs, range(len(env.household.names))):
            free = PRIMITIVES[verb].check(env.household, env.state, slot) == ""
            expected[env.layout.number(verb, slot)] = free
            assert env.layout.choice(env.layout.number(verb, slot)) == (verb, slot)
        assert (mask == expected).all()
        state = env.step(int(rng.choice(np.flatnonzero(mask))))[0]["state"]


def test_slots_beyond_the_household_are_empty_and_refused() -> None:
    env = ChoiceEnv(("b100", "bringing_in_wood"), 50, 9, "six")
    state = env.reset(seed=0)[0]["state"]
    rows = state[len(SIX) * 9 + features.AGENT :].reshape(9, features.COLUMNS)
    assert (rows[: len(env.household.names)] != 0).any(1).all()
    assert not rows[len(env.household.names) :].any()
    for action in (8, -1, 9 * len(SIX)):
        assert env.step(action)[4]["refusal"] == "there is no such thing"
    with pytest.raises(SettingError, match=r"has 6 things, but stream.slots=3"):
        ChoiceEnv(("b100", "bringing_in_wood"), 50, 3, "six")


def test_a_row_says_what_the_goal_still_wants() -> None:
    """Three pieces of wood: each is wanted on the floor inside until it lies there."""
    env = ChoiceEnv(("b100", "bringing_in_wood"), 50, 9, "six")
    state = env.reset(seed=0)[0]["state"]

    def goal(state: Any) -> Any:
        rows = state[len(SIX) * 9 + features.AGENT :].reshape(9, features.COLUMNS)
        return rows[:, -features.GOAL :]

    target, wood = 0, [1, 2, 3]  # slots: where things go, then what has to go there
    assert goal(state)[wood, 1].tolist() == [1, 1, 1]
    assert goal(state)[target, 7] == 1
    assert goal(state)[target, 10] == 0
    steps = list(robot_tasks.expert(env))
    for action in steps:
        verb, _ = env.layout.choice(action)
        state = env.step(action)[0]["state"]
        if verb == Verb.GRASP:  # the floor is where what is held belongs
            assert goal(state)[target, 10] == 1
    assert env.success
    assert not goal(state)[wood, 1].any()
    assert goal(state)[wood, features.DONE].tolist() == [1, 1, 1]


def test_the_six_primitives_do_not_solve_what_needs_others() -> None:
    env = ChoiceEnv(("b100", "making_tea"), 50, 12, "six")
    with pytest.raises(SettingError, match=r"set stream.primitives=all"):
        list(robot_tasks.expert(env))
    assert VERBS["all"] == tuple(Verb)


# ------------------------------------------------------------ learning


def test_demonstrations_are_possible_choices_that_reach_the_goal() -> None:
    stream: Any = clframe.stream("behavior_12", activities=TWO, num_demos=3, eval_episodes=2)
    check_stream(stream)
    assert stream.discrete
    assert stream.mask == slice(0, stream.n_outputs)
    for experience in stream:
        data = experience.data
        assert data.labels.dtype == torch.int64
        rows = torch.arange(len(data))
        batch = next(data.batches(rows, len(data)))
        assert (batch.x[rows, batch.y] == 1).all()
        assert set(batch.x[:, stream.mask].unique().tolist()) == {0.0, 1.0}
    demonstration = stream.read(0)[0]
    env = stream.tasks[0].evaluation.robot.environment()
    env.reset(seed=demonstration.seed)
    for action in demonstration.actions[:, 0]:
        *_, info = env.step(action)
    assert info["q"] == 1.0


def test_instances_for_learning_and_for_measuring_differ() -> None:
    stream: Any = clframe.stream("behavior_12", activities=TWO, num_demos=5)
    for index, task in enumerate(stream.tasks):
        shown = {demonstration.seed for demonstration in stream.read(index)}
        assert not shown & set(task.evaluation.seeds)


def test_naive_forgets_and_what_should_remember_remembers() -> None:
    settings = {"max_epochs": 80}
    naive, joint = learn(**settings), learn("multitask", **settings)
    replay = learn({"replay": {"size": 100}}, **settings)
    assert naive.matrix.measure == "q"
    assert naive.matrix.learned[-1, -1] > 0.9
    assert naive.matrix.learned[-1, 0] < naive.matrix.learned[0, 0] - 0.2
    assert joint.matrix.learned[-1].mean() > 0.9
    assert replay.matrix.learned[-1].mean() > 0.9


@pytest.mark.parametrize("strategy", ["lwf", "icarl", "er_ace", "ewc", "der", "packnet"])
def test_strategies_act_on_it_unchanged_those_that_need_classes_too(strategy: str) -> None:
    result = learn(strategy, max_epochs=2, stream={"eval_episodes": 2, "num_demos": 2})
    assert np.isfinite(result.matrix.values).all()
    # Q of every episode is kept beside its success, whose interval it is.
    content = result.to_json()
    kept, sure = content["measured"]["rollouts"], content["intervals"]
    assert np.mean(kept["q"], 2) == pytest.approx(result.matrix.values, abs=1e-6)
    shares = [[text.count("1") / 2 for text in row] for row in kept["success"]]
    assert (sure["measure"], sure["values"]) == ("success", shares)


def test_what_is_impossible_does_not_compete_whichever_model_it_is() -> None:
    stream: Any = clframe.stream("behavior_12", activities=TWO, num_demos=1)
    for model in ("mlp", "categorical"):
        learner: Any = prepare(stream, model={"name": model, "hidden": [8]}).learner
        batch = next(stream.experiences[0].data.batches(torch.arange(4), 4))
        outputs, _ = learner.run_model(batch.x, batch.task)
        possible = batch.x[:, stream.mask] == 1
        share = outputs.softmax(1)
        assert (share[~possible] == 0).all()
        by_hand = torch.stack(
            [
                -row[ok].log_softmax(0)[int(label - (~ok[:label]).sum())]
                for row, ok, label in zip(outputs, possible, batch.y, strict=True)
            ]
        )
        assert learner.label_loss(outputs, batch).item() == pytest.approx(by_hand.mean().item())
        chosen = learner.action_of(learner.possible(torch.zeros_like(outputs), batch.x), None)
        assert possible[torch.arange(4), chosen].all()


# ------------------------------------------------------------ measures


def test_an_imitated_planner_is_as_efficient_as_the_planner() -> None:
    result = learn(
        "multitask",
        stream={"activities": TWO[:1], "measure": "distance_navigated_normalized"},
        max_epochs=60,
    )
    assert result.matrix.measure == "distance_navigated_normalized"
    assert result.matrix.learned[-1, 0] == pytest.approx(1.0, abs=0.05)


def test_measures_of_an_episode_are_those_of_its_file(tmp_path: Path) -> None:
    env = ChoiceEnv(("b100", "moving_boxes_to_storage"), 50, 6, "six", record=True)
    env.reset(seed=7)
    reference = plan(env.instance)
    detour = [env.layout.number(Verb.NAVIGATE_TO, slot) for slot in range(1, 4)]
    for action in (*detour, *(env.layout.number(*step) for step in reference.steps)):
        env.step(action)
    assert env.recorder is not None
    episode = metrics.Episode(**env.recorder.episode())
    write_episode(tmp_path / "episode.json", env.problem.name, episode)
    activity, read = read_episode(tmp_path / "episode.json")
    assert activity == env.problem.name
    found = metrics.evaluate(env.problem.goal, read)
    measured = env.measures()
    assert measured["q"] == found["score"]["final_q"] == 1.0
    assert found["score"]["q"][0] < 1.0
    for name in METRICS:
        assert measured[name] == pytest.approx(found["efficiency"][name]), name
    assert measured["distance_navigated_normalized"] > 1.0
    assert measured["kinematic_differential_normalized"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not JSON"),
        ("[]", "its 'format' must be"),
        ('{"format": "clframe-behavior-episode-1", "activity": "a"}', "missing 'base'"),
    ],
)
def test_a_broken_episode_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "episode.json"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_episode(path)


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(SettingError, match=r"stream.measure has no 'distance'"):
        clframe.stream("behavior_12", measure="distance")


# ------------------------------------------------------------ the streams


def test_what_the_streams_hold() -> None:
    assert len(TWELVE) == 12
    assert set(TWELVE) <= set(corpus.solved("b100"))
    stored = json.loads((ROOT / "docs" / "results" / "behavior.json").read_text())
    for group, part in stored["corpora"].items():
        solved = {row["name"] for row in part["rows"] if not row["reason"]}
        assert set(corpus.solved(group)) == solved
    stream = clframe.stream("behavior_100", activities=["making_tea", "sorting_mail"])
    assert [task.name for task in stream.tasks] == ["making_tea", "sorting_mail"]
    assert stream.n_outputs % len(Verb) == 0
    with pytest.raises(SettingError, match=r"no activity 'make_tea'; did you mean 'making_tea'"):
        clframe.stream("behavior_100", activities=["make_tea"])


def test_generated_activities_differ_and_are_solved() -> None:
    texts = [generated(3, number) for number in range(6)]
    assert len(set(texts)) == 6
    assert generated.__wrapped__(3, 2) == texts[2]
    for number, text in enumerate(texts):
        instance = sample(corpus.read_activity(text, f"generated_3_{number}"), seed=number)
        assert plan(instance).score == 1.0
    stream = clframe.stream("behavior_generated", n_tasks=3, activity_seed=3)
    assert [task.name for task in stream.tasks] == [f"generated_3_{n}" for n in range(3)]


# ------------------------------------------------------------ files

ERRAND = """(define (problem errand)
 (:domain igibson)
 (:objects agent.n.01_1 - agent.n.01 floor.n.01_1 - floor.n.01 table.n.02_1 - table.n.02
   shelf.n.01_1 - shelf.n.01 apple.n.01_1 - apple.n.01)
 (:init (inroom floor.n.01_1 kitchen) (inroom table.n.02_1 kitchen) (inroom shelf.n.01_1 kitchen)
   (onfloor agent.n.01_1 floor.n.01_1) (ontop apple.n.01_1 table.n.02_1))
 (:goal (and (ontop apple.n.01_1 shelf.n.01_1))))
"""


def test_a_file_of_ones_own_is_learned(tmp_path: Path) -> None:
    (tmp_path / "errand.bddl").write_text(ERRAND)
    files = [str(tmp_path / "errand.bddl")]
    result = clframe.fit(
        {"name": "behavior_files", "files": files, "num_demos": 4, "eval_episodes": 4},
        max_epochs=30,
        run_dir=False,
        progress=False,
        logger=None,
    )
    assert result.matrix.columns == ["errand"]
    assert result.matrix.learned[-1, 0] == 1.0


@pytest.mark.parametrize(
    ("old", "new", "where", "sentence"),
    [
        ("apple.n", "appel.n", "6:40", "Nothing is known of the category 'appel.n.01'"),
        ("(ontop apple.n.01_1 t", "(inside apple.n.01_1 t", "6:40", "is no container"),
        (
            "(ontop apple.n.01_1 shelf.n.01_1)",
            "(ontop table.n.02_1 apple.n.01_1)",
            "7:14",
            "No primitive reaches (ontop table.n.02_1 apple.n.01_1)",
        ),
        ("shelf.n.01_1))))", "table.n.02_1))))", "7:9", "The goal already holds at the start"),
        ("(:domain igibson)", "(:domain robosuite)", "5:9", "has no predicate"),
    ],
)
def test_a_bad_file_is_refused_with_file_line_and_column(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    where: str,
    sentence: str,
) -> None:
    path = tmp_path / "bad.bddl"
    path.write_text(ERRAND.replace(old, new))
    run = tmp_path / "run"
    words = ["stream=behavior_files", f"stream.files=[{path}]", f"data_dir={tmp_path}/data"]
    assert main(["fit", *words, f"run_dir={run}"]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert f"{path}:{where}" in said
    assert sentence in said
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.bddl"]


def test_files_that_are_not_there_or_alike_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"put the paths of BDDL files into stream.files"):
        clframe.stream("behavior_files")
    with pytest.raises(SettingError, match=r"cannot read 'nowhere.bddl'"):
        clframe.stream("behavior_files", files=["nowhere.bddl"])
    twice = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "errand.bddl").write_text(ERRAND)
        twice.append(str(tmp_path / folder / "errand.bddl"))
    with pytest.raises(SettingError, match=r"two files called 'errand'"):
        clframe.stream("behavior_files", files=twice)


# ------------------------------------------------------------ by reward


def test_ppo_learns_it_by_the_increase_of_q() -> None:
    result = clframe.fit(
        {"name": "behavior_12", "activities": ["moving_boxes_to_storage"], "eval_episodes": 8},
        learner={"name": "ppo", "steps": 6000, "n_steps": 64},
        model={"name": "categorical", "hidden": [64]},
        optimizer={"name": "adam", "lr": 3e-3},
        batch_size=256,
        run_dir=False,
        progress=False,
        logger=None,
    )
    assert result.matrix.measure == "q"
    before, after = result.matrix.values[:, 0]
    assert before < 0.3
    assert after > before + 0.4


def test_means_leave_out_what_is_not_a_number() -> None:
    values = torch.tensor([[float("nan"), 1.0, 1.0], [2.0, 0.5, 0.0]], dtype=torch.float64)
    means = _means(values, ("share", "q", "success"))
    assert means == {"share": 2.0, "q": 0.75, "success": 0.5}
    assert next(iter(means)) == "share"
