"""Ctrl-C while a command starts, and a second one: real processes, as a terminal has them."""

import pytest

from lab.fuzzing.interrupts import before_main, interrupted

EARLY = (0.0, 0.02, 0.04, 0.06, 0.1, 0.2)  # Python's own start, our first imports
LATER = (0.5, 1.0, 2.0)
MOMENTS = {"run": (*EARLY, *LATER), "simulate": (0.3, 1.5), "bootstrap": (0.3, 1.5)}


@pytest.mark.slow
def test_ctrl_c_at_any_moment_after_python_has_started_shows_no_traceback() -> None:
    cases = list(interrupted(MOMENTS))
    assert [case for case in cases if case.wrong] == [] and len(cases) == sum(
        map(len, MOMENTS.values())
    )


FROM_SITE = """\
Fatal Python error: init_import_site: Failed to import the site module
Traceback (most recent call last):
  File "/usr/lib/python3.11/site.py", line 77, in <module>
    import os
KeyboardInterrupt
"""
AT_OUR_IMPORTS = """\
Traceback (most recent call last):
  File "/venv/bin/swarm-node", line 3, in <module>
    from swarm_node.commands.cli import main
  File "/venv/lib/python3.11/site-packages/swarm_node/commands/cli.py", line 12, in <module>
    import errno
KeyboardInterrupt
"""


@pytest.mark.parametrize("shown", [FROM_SITE, AT_OUR_IMPORTS])
def test_only_a_traceback_of_a_start_is_pythons_own(shown: str) -> None:
    assert before_main(shown)
    assert not before_main(shown.replace("KeyboardInterrupt", "ValueError: no"))
    assert not before_main(
        AT_OUR_IMPORTS.replace('cli.py", line 12, in <module>', 'cli.py", line 12, in dispatch')
    )
