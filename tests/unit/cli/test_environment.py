"""Tests do not go where the environment of whoever runs them leads: not to his brokers, not to his data."""

import os
import runpy
from pathlib import Path
from unittest import mock


def test_variables_for_the_commands_are_cleared_and_those_for_tests_stay() -> None:
    given = {"HEADWATER_DATA_DIR": "/mine", "HEADWATER_BOOTSTRAP_SERVER": "mine:9092", "HEADWATER_PROFILE": "mine"}
    before = {name for name in os.environ if name.startswith("HEADWATER_")}
    with mock.patch.dict(os.environ, {**given, "HEADWATER_SIM_SEEDS": "3"}):
        runpy.run_path(str(Path(__file__).parents[2] / "conftest.py"))
        assert {name for name in os.environ if name.startswith("HEADWATER_")} == before | {"HEADWATER_SIM_SEEDS"}
