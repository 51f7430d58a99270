"""A chat template is a stranger's program: it takes no more than its time and memory, and writes
what it writes in transformers.
"""

import os
import threading
import time
from importlib.resources import files
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from swarm_node import starters
from swarm_node.common.errors import UserError
from swarm_node.policy import soundness, templates
from swarm_node.policy.loading import load_policy
from swarm_node.policy.soundness import Damaged, Endless, rendered
from swarm_node.policy.templates import TemplateEndless, TemplateFailed, render
from swarm_node.settings import ModelConfig

PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
CHATS = [
    [{"role": "user", "content": "a\n<b> é ' \" {{ x }} {% if %}"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "<think>\nwhy\n</think>\n\nforty-two"},
        {"role": "user", "content": "and then\ud800"},
    ],
]


def asked(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


def of_libraries() -> list[str]:
    """Templates of many families of models, and of the starters."""
    there = files("trl").joinpath("chat_templates")
    found = [each.read_text() for each in there.iterdir() if each.name.endswith(".jinja")]
    return [*found, (starters.folder("rare") / "chat_template.jinja").read_text()]


def test_every_template_writes_what_it_writes_in_transformers() -> None:
    tokenizer = AutoTokenizer.from_pretrained(starters.folder("rare"))
    compared = 0
    own = [
        "{% generation %}{% set x = 1 %}{{ messages[0].content }}{% endgeneration %}",
        "{% set n = namespace(a=1) %}{% for m in messages %}{% set n.a = 2 %}{% endfor %}{{ n.a }}",
        "{{ messages | tojson(indent=2) }}{{ dict(a=1) }}{{ dict.fromkeys([1, 2]) }}",
        "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m }}{% endfor %}",
        "{{ bos_token }}{{ eos_token }}{{ tools }}{{ documents }}{{ unknown }}",
        "{{ raise_exception('no') }}", "{{ namespace(__x=1) }}", "{{ strftime_now('%Y') }}",
    ]  # fmt: skip
    for template in [*of_libraries(), *own]:
        tokenizer.chat_template = template
        for chat in CHATS:
            for options in ({}, {"add_generation_prompt": True}, {"enable_thinking": False}):
                try:
                    wanted = tokenizer.apply_chat_template(chat, tokenize=False, **options)
                except Exception:  # noqa: BLE001  (whatever a template raises)
                    wanted = None
                try:
                    given = rendered(tokenizer, chat, **options)
                except Damaged:
                    given = None
                assert given == wanted, template[:200]
                compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    "template",
    [
        "{{ 9**(9**9) }}",
        "{{ range(99999)|map('center', 99999)|join }}",
        "{{ range(99999)|map('center', 99999)|list }}",
        LOOP,
        "{{ '%999999999d' % 1 }}",
    ],
)
def test_a_template_that_does_not_end_is_ended_and_not_tried_again(template: str) -> None:
    with pytest.raises(TemplateEndless, match="does not end within 2 s and 512 MB"):
        render(template, asked("?"), {})
    child = templates._children[template]
    assert child._process is None, "it is gone"
    with pytest.raises(TemplateEndless):
        render(template, asked("?"), {})
    assert child._process is None, "no other one was started"
    assert render(PLAIN, asked("?"), {}) == "<user>?", "others are rendered"


def test_one_that_loops_for_longer_questions_only_is_refused_with_its_model(tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(starters.folder("rare"), folder)
    template = "{% if messages[0].content|length > 3000 %}" + LOOP + "{% endif %}" + PLAIN
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError, match="its chat template does not end") as raised:
        load_policy(ModelConfig(name=str(folder)))
    assert "\n" not in str(raised.value)


def test_one_that_loops_for_a_text_that_nobody_tried_ends_in_one_line() -> None:
    policy = load_policy(ModelConfig(name="rare"))
    policy.tokenizer.chat_template = (
        "{% if 'magic' in messages[0].content %}" + LOOP + "{% endif %}x"
    )
    assert policy.encode_prompt("?")
    with pytest.raises(UserError, match="cannot be given a prompt: its chat template does not end"):
        policy.encode_prompt("magic")


def test_a_prompt_at_which_a_template_fails_has_no_ids(capsys: pytest.CaptureFixture[str]) -> None:
    policy = load_policy(ModelConfig(name="rare"))
    policy.tokenizer.chat_template = "{{ raise_exception('\x1b[31mno\nswarm-node: fine') }}"
    assert policy.encode_prompt("?") == policy.encode_prompt("!") == []
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "\x1b" not in said and "skipped" in said


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ 'x' * 9999999 }}", "writes more than 262144 characters"),
        ("{{ raise_exception('\x1b[31mno\n') }}", r"fails: \?\[31mno"),
        ("{% for", "fails: unexpected"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "fails: maximum recursion"),
        ("{{ cycler.__init__.__globals__.os.getpid() }}", "fails: access"),
        ("{% include '/etc/passwd' %}", "fails"),
    ],
)
def test_a_template_that_fails_is_told_in_a_few_words(template: str, why: str) -> None:
    with pytest.raises(TemplateFailed, match=why) as raised:
        render(template, asked("?"), {})
    assert not isinstance(raised.value, TemplateEndless)
    assert len(str(raised.value)) < 200 and str(raised.value).isprintable()


def test_a_child_is_confined_before_it_reads_its_template() -> None:
    assert render(PLAIN, asked("?"), {}) == "<user>?"
    process = templates._children[PLAIN]._process
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
    limits = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
    rows = {row[:26].strip(): row[26:].split()[0] for row in limits}
    assert rows["Max address space"] == str(templates.MEMORY)
    assert rows["Max cpu time"] == str(templates.CPU_SECONDS)
    assert rows["Max open files"] == rows["Max file size"] == "0"
    names = {name.partition("=")[0] for name in environment_of(process.pid)}
    assert names <= {"PYTHONUTF8", "LD_LIBRARY_PATH", "TMPDIR", "LC_CTYPE"}


def environment_of(pid: int) -> list[str]:
    return [each for each in Path(f"/proc/{pid}/environ").read_text().split("\0") if each]


def test_a_child_that_is_gone_is_replaced() -> None:
    for end in ("kill", "close"):
        child = templates._children.setdefault(PLAIN, templates.TemplateRenderer(PLAIN))
        assert render(PLAIN, asked("?"), {}) == "<user>?"
        assert child._process is not None
        child._process.kill() if end == "kill" else child.close()
        assert render(PLAIN, asked("?"), {}) == "<user>?"


def test_honest_texts_do_not_use_up_a_child() -> None:
    """It lives two seconds of CPU time; the text at which it ends gets a fresh one."""
    slow = "{% for a in range(99999) %}{% for b in range(9) %}{% endfor %}{% endfor %}x"
    before = time.process_time()
    assert [render(slow, asked("?"), {}) for _ in range(60)] == ["x"] * 60
    assert time.process_time() - before < 10, "the time is the child's"


def test_threads_ask_at_the_same_time_and_the_oldest_children_end() -> None:
    def ask(number: int) -> None:
        for _ in range(5):
            text = render(f"{number % 12}{PLAIN}", asked(str(number)), {})
            found.append(text == f"{number % 12}<user>{number}")

    found: list[bool] = []
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 120
    assert len(templates._children) <= templates.MOST_CHILDREN


def test_no_template_is_traced_or_compiled_in_this_process() -> None:
    root = Path(soundness.__file__).parents[1]
    for file in root.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "settrace" not in text
        assert "jinja2" not in text or file.name == "template_child.py", file
    assert issubclass(Endless, Damaged) and os.getpid()
