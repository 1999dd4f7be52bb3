"""Plugins of one's own, found by the entry points of an installed package."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.connect.connector_config.common import connector_def
from headwater.connect.data import schema as s
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.tolerance import Tolerance

MODULE = '''
import dataclasses
from headwater.connect.api import SourceConnector, SourceTask
from headwater.connect.converters.basic import StringConverter
from headwater.connect.transforms.predicates import Predicate

class NumbersConnector(SourceConnector):
    doc = "Numbers in a row."
    task_class = SourceTask

class LoudConverter(StringConverter):
    def to_connect(self, topic, data):
        found = super().to_connect(topic, data)
        return found._replace(value=found.value.upper())

class IsLong(Predicate):
    def test(self, record):
        return len(record.value) > 3

def twice(record):
    """The text, twice."""
    return dataclasses.replace(record, value=record.value * 2)

def nothing(record):
    return None
'''
ENTRY_POINTS = """
[headwater.connect.connectors]
Numbers = my_plugins:NumbersConnector
Broken = my_plugins:NoSuchConnector
Absent = no_such_module:Connector
[headwater.connect.converters]
Loud = my_plugins:LoudConverter
[headwater.connect.transforms]
Twice = my_plugins:twice
Nothing = my_plugins:nothing
[headwater.connect.predicates]
IsLong = my_plugins:IsLong
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "my_plugins-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugins\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "my_plugins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


def transformed(props: dict[str, str], text: bytes) -> str | None:
    given = {"name": "c", "connector.class": "FileStreamSink", "topics": "t", "value.converter": "Loud", **props}
    catalog = Catalog()
    config = connector_def(catalog, Kind.SINK).parse(given)
    pipeline = Pipeline(catalog, given, config, {"key.converter": "StringConverter"})
    found = pipeline.value.to_connect("t", text)
    record = SinkRecord(topic="t", partition=0, value_schema=s.STRING, value=found.value, offset=0)
    limits = {"errors.retry.timeout": 0, "errors.retry.delay.max.ms": 0, "errors.tolerance": "none"}
    made = pipeline.transform(record, record, Tolerance(limits, [], lambda: 0, lambda _seconds: True))
    return None if made is None else made.value


@pytest.mark.usefixtures("installed")
def test_what_a_package_registers_is_named_in_configs() -> None:
    assert Catalog().connector("Numbers").cls.doc == "Numbers in a row."
    assert Catalog().find("Twice", Kind.TRANSFORMATION).cls.doc == "The text, twice."
    chain = {"transforms": "a", "transforms.a.type": "Twice"}
    assert transformed(chain, b"ab") == "ABAB"
    only_long = {"transforms.a.predicate": "p", "predicates": "p", "predicates.p.type": "IsLong"}
    assert transformed({**chain, **only_long}, b"ab") == "AB"
    assert transformed({**chain, **only_long}, b"abcd") == "ABCDABCD"
    assert transformed({"transforms": "a", "transforms.a.type": "Nothing"}, b"ab") is None


@pytest.mark.usefixtures("installed")
def test_a_plugin_that_cannot_be_loaded_is_told_and_the_others_are_there(caplog: pytest.LogCaptureFixture) -> None:
    """One broken package kept every worker on the machine from starting."""
    with caplog.at_level(logging.ERROR, "headwater.connect"):
        catalog = Catalog()
    assert catalog.connector("Numbers")
    assert "Broken" in caplog.text
    assert "no_such_module" in caplog.text
    with pytest.raises(ConnectError, match="Failed to find any class"):
        catalog.connector("Broken")


@pytest.mark.usefixtures("installed")
def test_only_what_is_allowed_and_what_is_registered_can_be_named() -> None:
    with pytest.raises(ConnectError, match="Failed to find any class"):
        Catalog(["FileStream*"]).connector("Numbers")
    with pytest.raises(ConnectError, match="Failed to find any class"):
        Catalog().find("my_plugins.twice", Kind.TRANSFORMATION)  # a config never imports anything


def test_a_worker_needs_no_package_of_a_connector_that_nobody_uses() -> None:
    """As after `pip install headwater`: psycopg, drivers, Arrow, Spark and the rest are extras."""
    extras = "psycopg pymysql pymongo cassandra pyspark pyarrow numpy pandas fastavro google.protobuf kazoo cryptography yaml lmdb"
    program = f"""
import sys
for name in {extras.split()!r}:
    sys.modules[name] = None
from headwater.connect.plugins import Catalog
catalog = Catalog(installed=False)
print(catalog.connector("FileStreamSource").cls.__name__)
print(catalog.connector("PostgresCdc").cls.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["FileStreamSourceConnector", "PostgresCdcConnector"], done.stderr
