"""A right answer to any question of the catalogue, also where the data set keeps none, and ways in
which honest models write it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from swarm_node.environments.reasoning_gym.source import LibraryItem

Entry = Mapping[str, Any]
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


def answered(name: str, config: Any, seed: int, most: int) -> Iterator[tuple[LibraryItem, str]]:
    """Those of the first `most` questions of a configuration that can be built and have an answer,
    with that answer.
    """
    for index in range(most):
        try:
            item = LibraryItem(name, config, seed, index)
        except Exception:  # noqa: BLE001  such a question is skipped by every node
            continue
        answer = right_answer(name, item.dataset, item.entry)
        if answer is not None:
            yield item, answer


def right_answer(name: str, dataset: Any, entry: Entry) -> str | None:
    """The key, or else an answer worked out from the metadata; None if there is none."""
    facts = entry["metadata"]
    match name:
        case "graph_color":
            return json.dumps(facts["possible_answer"])
        case "propositional_logic":
            tried = [
                facts["example_answer"],
                *(f"({premise} ∧ {premise})" for premise in facts["premises"]),
            ]
            return next((text for text in tried if dataset.score_answer(text, entry) == 1.0), None)
    key: str = entry["answer"]
    return key.strip() or None


def spellings(answer: str) -> dict[str, str]:
    """Name -> the answer as somebody may write it, with nothing beside it. The library rewards some
    of these.
    """
    return {
        "as it is": answer,
        "space before": f"  {answer}",
        "space behind": f"{answer} \n",
        "line before": f"\n{answer}",
        "lower case": answer.lower(),
        "upper case": answer.upper(),
        "title case": answer.title(),
        "full stop": answer if answer.endswith(".") else f"{answer}.",
        "double quotes": f'"{answer}"',
        "single quotes": f"'{answer}'",
        "square brackets": f"[{answer}]",
        "round brackets": f"({answer})",
        "bold": f"**{answer}**",
        "double spaces": answer.replace(" ", "  "),
        "tabs": answer.replace(" ", "\t"),
        "no spaces": answer.replace(" ", ""),
        "spaces behind commas": answer.replace(",", ", "),
        "no spaces behind commas": answer.replace(", ", ","),
        "commas for spaces": answer.replace(" ", ","),
        "commas in lines": answer.replace(" ", ", "),
        "spaces at ends of lines": answer.replace("\n", " \n"),
        "blank lines": answer.replace("\n", "\n\n"),
        "other line ends": answer.replace("\n", "\r\n"),
        "one line": answer.replace("\n", " "),
        "arabic digits": answer.translate(ARABIC),
        "long minus": answer.replace("-", "−"),
        "other arrows": answer.replace("→", "->"),
        "times": answer.replace("*", "×"),
        "and": answer.replace(", and ", ", "),
    } | (_numbers(answer) if re.fullmatch(r"-?\d{1,90}(\.\d+)?", answer, re.ASCII) else {})


def _numbers(number: str) -> dict[str, str]:
    """Name -> a number in another notation."""
    whole = "." not in number
    return {
        "plus": number if number.startswith("-") else f"+{number}",
        "zero before": number if number.startswith("-") else f"0{number}",
        "decimals": f"{number}.0" if whole else f"{number}0",
        "two decimals": f"{number}.00" if whole else f"{number}00",
        "dollar": f"${number}",
        "mathematics": f"${number}$",
        "per cent": f"{number}%",
        "thousands": f"{int(number):,}" if whole else number,
        "exponent": f"{number}e0",
        "underscore": f"{int(number):_}" if whole else number,
    }
