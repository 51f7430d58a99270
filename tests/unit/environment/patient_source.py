"""The library's questions with time to build them on any machine: what they are is tested, not how long it takes."""

from swarm_node.environment import judging, library

judging.QUESTION_BUDGET = 20.0
VERSION = library.VERSION
build = library.build
