"""Offsets of a connector as people type them."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from headwater.cli.commands.connect import connect
from headwater.cli.connect_client import ConnectClient
from headwater.cli.connect_offsets import offsets_document

SINK = {"partition": {"kafka_topic": "orders.eu", "kafka_partition": 0}, "offset": {"kafka_offset": 42}}
SOURCE = {"partition": {"filename": "a=b:0=1"}, "offset": {"position": 3}}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["orders.eu:0=42"], [SINK]),
        (["orders.eu:0=null"], [{**SINK, "offset": None}]),
        ([" orders.eu:0=42 ", json.dumps(SOURCE)], [SINK, SOURCE]),
        ([json.dumps(SINK)], [SINK]),
        ([json.dumps([SINK, SOURCE])], [SINK, SOURCE]),
        ([json.dumps({"offsets": [SINK]})], [SINK]),
        (['{"kafka_topic": "orders.eu", "kafka_partition": 0, "kafka_offset": 42}'], [SINK]),
        (['[{"kafka_topic": "orders.eu", "kafka_partition": 0, "kafka_offset": null}]'], [{**SINK, "offset": None}]),
        (['{"filename": "a=b:0=1"}={"position": 3}'], [SOURCE]),
        (['{"filename": "a=b:0=1"} = {"position": 3}'], [SOURCE]),
        (['{"filename": "a=b:0=1"}=null'], [{**SOURCE, "offset": None}]),
    ],
)
def test_what_people_type(texts: list[str], expected: list[Any]) -> None:
    assert offsets_document(texts) == {"offsets": expected}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders:0", "is no offset: TOPIC:PARTITION=OFFSET"),
        ("orders:0=-1", "is no offset"),
        ("orders=5", "is no offset"),
        ("", "is no offset"),
        ("42", "is no offset"),
        ("{partition: {}}", "not JSON: .*single ones stand around"),
        ('{"a": 1}={"b": 2}={"c": 3}', "stands behind the JSON"),
        ('{"a": 1} {"b": 2}', "stands behind the JSON"),
        ('{"a": 1}=', "not JSON"),
        ('{"offsets": [], "more": 1}', "there is nothing"),
        ('{"offsets": {}}', "there is nothing"),
        ('{"partition": {"a": 1}}', "no partition with its offset"),
        ('{"partition": {}, "offset": {"b": 1}}', "no object with its names"),
        ('{"partition": {"a": 1}, "offset": 5}', "null forgets one"),
        ('["orders:0=5"]', "no partition with its offset"),
        ('{"kafka_topic": "t", "kafka_offset": 5}', "no partition with its offset"),
    ],
)
def test_what_is_no_offset_is_told_with_what_is_one(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        offsets_document([text])


def test_the_command_sends_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask(_self: ConnectClient, method: str, *path: str, body: Any = None, **_query: str) -> Any:
        asked.append((method, path, body))
        return {"message": "done"}

    monkeypatch.setattr(ConnectClient, "ask", ask)
    typed = ["offsets", "c", "--url", "http://127.0.0.1:1", "--set", "orders.eu:0=42"]
    assert CliRunner().invoke(connect, typed).exit_code == 0
    assert asked == [("PATCH", ("connectors", "c", "offsets"), {"offsets": [SINK]})]
    refused = CliRunner().invoke(connect, [*typed, "--set", "nonsense"])
    assert (refused.exit_code, "TOPIC:PARTITION=OFFSET" in refused.output) == (2, True)
    assert CliRunner().invoke(connect, [*typed, "--reset"]).exit_code == 2
    assert len(asked) == 1
