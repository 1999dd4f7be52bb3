"""Debezium itself on Apache's Connect beside its recorded records: collected only under `make soak`, for its jars (see
conftest.py).
"""

import json
from pathlib import Path

import pytest

from compat.support.debezium import JARS, MODES, RECORDED, debezium_records, expanded, in_topics

pytestmark = pytest.mark.soak


def test_debezium_gives_what_was_recorded(tmp_path: Path) -> None:
    assert any(JARS.glob("*.jar")), "the jars of tests/compat/debezium are missing: HEADWATER_SOAK=1 tests/tools.sh"
    recorded = json.loads(RECORDED.read_text())
    for mode, records in debezium_records(tmp_path, list(MODES)).items():
        found, known = in_topics(records), expanded(recorded[mode])
        assert sorted(found) == sorted(known)
        for topic in known:
            stable = [[each["key"], each["before"], each["after"], each["value_schema"]] for each in found[topic]]
            assert stable == [
                [each["key"], each["before"], each["after"], each["value_schema"]] for each in known[topic]
            ]
