"""Only the machine's own battery tells whether a laptop is plugged in."""

from pathlib import Path

import pytest

from swarm_node.node.guest import on_battery

MOUSE = {"type": "Battery", "scope": "Device", "status": "Discharging", "capacity": "40"}
LAPTOP = {"type": "Battery", "status": "Discharging"}
FULL = {"type": "Battery", "scope": "System", "status": "Full"}
CABLE, NO_CABLE = {"type": "Mains", "online": "1"}, {"type": "Mains", "online": "0"}


@pytest.mark.parametrize(
    ("supplies", "on"),
    [
        ({}, False),
        ({"hidpp_battery_0": MOUSE}, False),
        ({"hidpp_battery_0": MOUSE, "AC": CABLE}, False),
        ({"BAT0": LAPTOP}, True),
        ({"BAT0": LAPTOP, "AC": NO_CABLE, "hidpp_battery_0": MOUSE}, True),
        ({"BAT0": FULL, "AC": CABLE, "hidpp_battery_0": MOUSE}, False),
        ({"BAT0": LAPTOP, "ADP1": CABLE}, False),  # a weak charger: it is plugged in
        ({"macsmc-battery": LAPTOP, "USB": {"type": "USB", "online": "0"}}, True),
    ],
)
def test_a_desktop_with_a_wireless_mouse_is_no_laptop(
    tmp_path: Path, supplies: dict[str, dict[str, str]], on: bool
) -> None:
    for name, says in supplies.items():
        (tmp_path / name).mkdir()
        for file, text in says.items():
            (tmp_path / name / file).write_text(f"{text}\n")
    assert on_battery(tmp_path) is on
