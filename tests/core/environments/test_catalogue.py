"""Every task of the catalogue: the same question in every process, and the right answer is scored
as right.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest
import reasoning_gym

from lab.fuzzing.right_answers import answered
from lab.studies.catalogue_survey import SAME, alike
from protocol import codec
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity
from protocol.messages import Reason, Rejected, RolloutGroup, Round
from swarm_node.environments.reasoning_gym.catalogue import (
    CATALOGUE,
    EXCLUDED,
    LEFT_OUT,
    PAPER,
    REFUSED,
    VERSION,
)
from swarm_node.environments.reasoning_gym.environment import SCORER_MODULE, ReasoningGym
from swarm_node.environments.reasoning_gym.scorers.scorers import SCORERS
from swarm_node.scoring.client import Request, ScoringClient
from tests.groups import group

DIGESTS = str(Path(__file__).with_name("digest_source.py"))
# genrl/examples/rgym/datasets.yaml of gensyn-genrl 0.1.6, 0.1.11 and 0.3.0 (the same bytes,
# MD5 e784237447eaf85411c153854a17725b), without the seeds and sizes of its lists of questions
PUBLISHED = {
    "arc_1d": "min_size=10 max_size=30 num_train=3",
    "basic_arithmetic": (
        "min_terms=2 max_terms=6 min_digits=1 max_digits=4 operators=+,-,*,/ "
        "allow_parentheses=True allow_negation=True format_style=natural whitespace=single"
    ),
    "base_conversion": "min_base=2 max_base=16 min_value=0 max_value=1000",
    "bf": "difficulty=1",
    "binary_matrix": "min_n=3 max_n=10 p_zero=0.25",
    "calendar_arithmetic": (
        "year=2023 offset_upper_bound=100 leap_year_range=200 "
        "tasks=count_days,weekday_of_date,is_leap_year,recurring_event_day"
    ),
    "decimal_arithmetic": (
        "min_terms=2 max_terms=6 min_num_decimal_places=1 max_num_decimal_places=3 precision=5"
    ),
    "fraction_simplification": (
        "min_value=1 max_value=100 min_factor=2 max_factor=100 styles=plain,latex_frac,latex_dfrac"
    ),
    "propositional_logic": (
        "min_vars=2 max_vars=4 min_statements=2 max_statements=4 min_complexity=1 max_complexity=3"
    ),
}
OLDER = ("0.1.25", "0.1.25-2")  # versions of this environment in earlier releases
ADDRESSES = [(3, 0), (2_000_000_011, 101)]  # seed and index; the catalogue was measured with others


def every_question() -> list[Request]:
    """One question of each task, at the two addresses in turn."""
    tasks = [
        (dataset, config_id) for dataset, configs in CATALOGUE.items() for config_id in configs
    ]
    return [(*task, *ADDRESSES[number % 2], None) for number, task in enumerate(tasks)]


@pytest.fixture(scope="module")
def scoring() -> Iterator[ScoringClient]:
    """One scoring process for all tests, since it keeps the questions that it has built."""
    with ScoringClient(DIGESTS, VERSION, 20.0, 1024, SCORER_MODULE) as client:
        yield client


@pytest.mark.slow
def test_every_task_is_the_same_in_two_processes_in_any_order(scoring: ScoringClient) -> None:
    questions = every_question()
    with ScoringClient(DIGESTS, VERSION, 20.0, 1024) as other, ThreadPoolExecutor() as pool:
        asked = pool.submit(other.ask, questions[::-1])
        forwards, backwards = scoring.ask(questions), asked.result()[::-1]
    assert [q for q, a, b in zip(questions, forwards, backwards, strict=True) if a != b] == []
    assert [
        (q, a) for q, a in zip(questions, forwards, strict=True) if not isinstance(a, str)
    ] == []


def test_what_the_library_would_execute_is_scored_by_us_or_left_out() -> None:
    """These data sets were found by looking for eval and sympy's parser in the library's
    scorers.
    """
    executes = {
        "binary_matrix",
        "countdown",
        "n_queens",
        "polynomial_multiplication",
        "puzzle24",
        "simple_integration",
    }
    assert executes | {"spiral_matrix", "string_insertion"} <= set(SCORERS) & set(CATALOGUE)
    assert {"codeio", "intermediate_integration"} <= set(REFUSED) <= set(EXCLUDED) and all(
        EXCLUDED.values()
    )
    assert not set(CATALOGUE) & set(EXCLUDED)


def written(settings: Mapping[str, object]) -> str:
    """Settings as one line, in the form of PUBLISHED."""
    values = [
        (name, ",".join(value) if isinstance(value, tuple) else value)
        for name, value in settings.items()
    ]
    return " ".join(f"{name}={value}" for name, value in values)


def test_the_tasks_of_the_paper_have_the_settings_published_with_its_code() -> None:
    assert {name: written(settings) for name, settings in PAPER.items()} == PUBLISHED
    for name in PAPER:
        assert CATALOGUE[name]["paper"] == PAPER[name]
        config = reasoning_gym.create_dataset(name, seed=1, size=1, **PAPER[name]).config
        by_seed = {"seed", "size"}
        assert {field.name for field in fields(config)} - by_seed == set(PAPER[name]), (
            "a setting that is not published would follow the library's default"
        )


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_every_right_answer_to_a_task_of_the_paper_scores_one(name: str) -> None:
    wrong, asked = [], 0
    for item, answer in answered(name, PAPER[name], 7, 100):
        asked += 1
        if item.score(answer) != 1.0:
            wrong.append((item.prompt, answer))
    assert (wrong, asked) == ([], 100)


@pytest.mark.parametrize("version", OLDER)
def test_a_group_of_an_earlier_version_is_refused_before_its_question_is_built(
    version: str,
) -> None:
    ann, bob = Identity.create(), Identity.create()
    environment = ReasoningGym(["calendar_arithmetic/paper"])
    (asked,) = environment.sample(ann.peer_id, Round(7), 1)
    knows = environment.catalogue.knows
    rules = AdmissionRules("test", bob.peer_id, knows)

    def outcome(sent_version: str) -> RolloutGroup | Rejected:
        sent = group(
            ann.peer_id,
            round=7,
            version=sent_version,
            dataset=asked.dataset,
            config_id=asked.config_id,
        )
        return admit(codec.seal(sent, ann, "test"), rules)

    assert isinstance(outcome(VERSION), RolloutGroup)
    assert outcome(version) == Rejected(Reason.UNKNOWN_QUESTION)


@pytest.mark.slow
def test_nonsense_is_never_rewarded(scoring: ScoringClient) -> None:
    """The reward stays below 0.5: text that no scorer can read is a wrong answer, and the group is
    kept.
    """
    nonsense = (
        "", "swordfish", "I do not know", "[]", "{}", "nan", "\x1b[2J", "9" * 400, "[" * 50,
        "<answer></answer>",
    )  # fmt: skip
    items = [
        (dataset, config_id, seed, index, nonsense)
        for dataset, config_id, seed, index, _ in every_question()
    ]
    replies = scoring.ask(items)
    assert [
        (q[:2], r)
        for q, r in zip(items, replies, strict=True)
        if not isinstance(r, tuple) or max(r) >= 0.5
    ] == []
    assert scoring.restarts == 0


def test_a_level_with_nearly_always_the_same_answer_is_left_out_with_the_reason() -> None:
    assert alike(Counter({"'Yes'": 37, "'No'": 3})) and not alike(Counter({"'Yes'": 36, "'No'": 4}))
    assert not alike(Counter({"None": 40})), (
        "no key kept: the question itself is what an answer is checked with"
    )
    assert {task for task, reason in LEFT_OUT.items() if reason == SAME} == {
        "game_of_life/medium",
        "syllogism/easy",
    }
    assert "medium" not in CATALOGUE["game_of_life"] and "easy" in CATALOGUE["game_of_life"]
