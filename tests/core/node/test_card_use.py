"""A node on somebody's machine rests while another program uses the card."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from swarm_node.common.errors import UserError
from swarm_node.node.card_use import (
    LOOK_SECONDS,
    QUIET_SECONDS,
    UNKNOWN,
    CardWatch,
    NvmlReader,
    Use,
    family,
    watch_of,
)
from swarm_node.node.guest import Guest
from swarm_node.settings.limits import PAUSE_FILE, LimitsConfig

NODE = Use(10, 6000, 0.95, "python")
GENERATOR = Use(11, 2000, 0.5, "python")
DESKTOP = Use(7, 600, 0.03, "gnome-shell")
GAME = Use(99, 5000, 0.9, "Game.exe")
PAUSE = LimitsConfig(card="pause")


class Card:
    """A card whose users a test sets, a clock that it moves, and the watch of both."""

    def __init__(self, config: LimitsConfig = PAUSE) -> None:
        self.uses: Sequence[Use] = [NODE, GENERATOR, DESKTOP]
        self.fails = False
        self.now, self.looks = 0.0, 0
        self.said: list[str] = []
        own = frozenset({NODE.pid, GENERATOR.pid})
        self.watch = CardWatch(config, self.read, lambda: self.now, self.said.append, lambda: own)

    def read(self) -> Sequence[Use]:
        self.looks += 1
        if self.fails:
            raise OSError("no driver")
        return self.uses

    def after(self, seconds: float) -> str:
        """What the watch says then, asked twice a second until then as a resting node does."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            self.watch()
        return self.watch()


def test_it_trains_beside_a_desktop_and_its_own_processes() -> None:
    assert Card().after(60) == ""


def test_it_rests_while_a_game_is_played_and_goes_on_when_the_card_has_been_free_for_a_while() -> (
    None
):
    card = Card()
    card.uses = [NODE, DESKTOP, GAME]
    assert card.after(3 * LOOK_SECONDS) == "Game.exe uses the graphics card"
    card.uses = [NODE, DESKTOP]
    assert card.after(QUIET_SECONDS - LOOK_SECONDS) == "Game.exe uses the graphics card"
    assert card.after(2 * LOOK_SECONDS) == ""


def test_one_busy_look_is_no_game() -> None:
    card = Card()
    assert card.watch() == ""
    card.uses = [NODE, GAME]
    card.now += LOOK_SECONDS
    assert card.watch() == ""
    card.uses = [NODE, DESKTOP]
    assert card.after(10) == ""


def test_a_game_that_loads_its_next_level_is_still_played() -> None:
    card = Card()
    card.uses = [NODE, GAME]
    assert card.after(10)
    # It computes nothing for a while, and keeps its memory
    card.uses = [NODE, Use(GAME.pid, GAME.megabytes, 0.0, GAME.name)]
    assert card.after(3 * QUIET_SECONDS) == "Game.exe uses the graphics card"
    # Between the half and the whole of a threshold nothing begins and nothing ends
    card.uses = [NODE, Use(GAME.pid, 1500, 0.0, GAME.name)]
    assert card.after(3 * QUIET_SECONDS)
    card.uses = [NODE, Use(GAME.pid, 900, 0.0, GAME.name)]
    assert card.after(QUIET_SECONDS + LOOK_SECONDS) == ""
    card.uses = [NODE, Use(GAME.pid, 1500, 0.0, GAME.name)]
    assert card.after(3 * QUIET_SECONDS) == ""


@pytest.mark.parametrize(
    ("config", "other", "rests"),
    [
        (LimitsConfig(card="pause", card_busy=50), Use(1, 100, 0.4), False),
        (LimitsConfig(card="pause", card_busy=50), Use(1, 100, 0.6), True),
        (LimitsConfig(card="pause", card_busy=0), Use(1, 100, 1.0), False),
        (LimitsConfig(card="pause", card_memory=0), Use(1, 20_000, 0.0), False),
        (LimitsConfig(card="pause", card_memory=500), Use(1, 501, 0.0), True),
    ],
)
def test_a_user_says_from_when_on_a_program_counts(
    config: LimitsConfig, other: Use, rests: bool
) -> None:
    card = Card(config)
    card.uses = [NODE, other]
    assert bool(card.after(10)) is rests
    assert not rests or card.watch() == "process 1 uses the graphics card"


def test_the_driver_is_asked_every_two_seconds_at_most() -> None:
    card = Card()
    card.after(60)
    assert card.looks <= 60 / LOOK_SECONDS + 1


@pytest.mark.parametrize("fails", [False, True])
def test_where_the_driver_does_not_name_this_process_it_trains_and_says_so_once(fails) -> None:
    """In a container the driver's process ids are not those of the processes inside."""
    card = Card()
    card.uses, card.fails = [Use(4711, 6000, 0.95), GAME], fails
    assert card.after(60) == "" and card.said == [UNKNOWN]


def test_this_process_is_its_own_family() -> None:
    import os

    assert os.getpid() in family() and os.getppid() not in family()


class Driver:
    """What NVIDIA's bindings answer, of two processes of which one computes and draws."""

    class NVMLError(Exception):
        pass

    def __init__(self, missing: str = "") -> None:
        self.missing, self.asked = missing, list[Any]()

    def nvmlInit(self) -> None:
        self._unless("driver")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self._unless("card")
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        self._unless("processes")
        return [SimpleNamespace(pid=10, usedGpuMemory=6_000_000_000), self._game]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:
        return [self._game, SimpleNamespace(pid=7, usedGpuMemory=None)]

    def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[Any]:
        self.asked.append(since)
        self._unless("samples")
        times = ((99, 2_000, 90), (10, 1_000, 40), (99, 1_000, 10))
        return [SimpleNamespace(pid=p, timeStamp=t, smUtil=u) for p, t, u in times]

    _game = SimpleNamespace(pid=99, usedGpuMemory=3_000_000_000)

    def _unless(self, what: str) -> None:
        if self.missing == what:
            raise self.NVMLError(f"no {what}")


def test_the_driver_lists_programs_that_compute_and_that_draw_each_once() -> None:
    driver = Driver()
    read = NvmlReader(driver, "GPU-1")
    assert [(use.pid, use.megabytes, use.busy) for use in read()] == [
        (10, 6000.0, 0.4),
        (99, 3000.0, 0.9),
        (7, 0.0, 0.0),
    ]
    read()
    # The second look asks for samples after the newest of the first
    assert driver.asked == [0, 2_000]


def test_without_new_samples_memory_alone_counts() -> None:
    assert [use.busy for use in NvmlReader(Driver("samples"), "GPU-1")()] == [0.0] * 3


def test_a_driver_that_lists_no_processes_raises() -> None:
    with pytest.raises(OSError, match="no processes"):
        NvmlReader(Driver("processes"), "GPU-1")()


@pytest.mark.parametrize("missing", ["driver", "card"])
def test_a_driver_that_does_not_answer_is_no_reason_to_rest(missing: str) -> None:
    said: list[str] = []
    watch = watch_of(PAUSE, "GPU-1", lambda: 0.0, said.append, lambda: Driver(missing))
    assert watch() == "" and said == [UNKNOWN]


def test_nobody_asks_a_driver_unless_the_user_wants_it() -> None:
    def never() -> Any:
        raise AssertionError("asked")

    said: list[str] = []
    assert watch_of(LimitsConfig(), "GPU-1", lambda: 0.0, said.append, never)() == ""
    assert said == []


def test_a_model_on_no_card_of_nvidia_has_nothing_to_make_room_on_and_is_told_so() -> None:
    said: list[str] = []
    assert watch_of(PAUSE, "", lambda: 0.0, said.append)() == ""
    assert said == [
        "limits.card pause does nothing here, since the model is not on a card of NVIDIA"
    ]


def test_a_missing_extra_is_named_with_what_installs_it() -> None:
    def missing() -> Any:
        raise ImportError("pynvml")

    with pytest.raises(UserError, match=r"pip install 'textswarm\[card\]'"):
        watch_of(PAUSE, "GPU-1", lambda: 0.0, print, missing)


def test_a_guest_gives_the_reason_of_the_card_behind_those_of_its_user(tmp_path) -> None:
    guest = Guest(PAUSE, tmp_path, card=lambda: "Game.exe uses the graphics card")
    assert guest.resting() == "Game.exe uses the graphics card"
    (tmp_path / PAUSE_FILE).touch()
    assert guest.resting().startswith("paused")


def test_the_bindings_of_the_extra_have_all_that_is_used() -> None:
    pynvml = pytest.importorskip("pynvml", reason="the extra card is not installed")
    used = [name for name in vars(Driver) if name.startswith("nvml") or name == "NVMLError"]
    assert len(used) == 6 and all(hasattr(pynvml, name) for name in used)
