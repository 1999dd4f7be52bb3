"""Parsed schemas that are kept: how many, by what they may hold in memory."""

import pytest

from headwater.registry.decisions import schema_parser
from headwater.registry.decisions.schema_parser import SchemaParser

TEXTS = {
    "AVRO": '{{"type":"enum","name":"N{0:06}","symbols":["A"]}}',
    "JSON": '{{"title":"N{0:06}","anyOf":[{{}},{{}},{{}},{{}},{{}}]}}',
    "PROTOBUF": 'syntax="proto3";message N{0:06}{{int32 a=1;int32 b=2;}}',
}


@pytest.mark.parametrize(("kind", "bytes_of_a_character"), [("AVRO", 10), ("JSON", 150), ("PROTOBUF", 46)])
def test_schemas_are_kept_by_what_they_hold_and_not_by_their_text(
    monkeypatch: pytest.MonkeyPatch, kind: str, bytes_of_a_character: int
) -> None:
    """Sixteen million characters of JSON Schemas that were made for it held more than a gigabyte."""
    monkeypatch.setattr(schema_parser, "_CACHE_BYTES_MAX", 200_000)
    parser = SchemaParser()
    texts = [TEXTS[kind].format(at) for at in range(200)]
    for each in texts:
        parser.parse(kind, each)
    held = sum(len(text) for _, text, _ in parser._cache)
    assert 0 < held * bytes_of_a_character <= 200_000
    assert parser.parse(kind, texts[-1]) is parser.parse(kind, texts[-1])


def test_one_schema_that_is_larger_than_all_may_be_leaves_the_others_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_parser, "_CACHE_BYTES_MAX", 20_000)
    parser = SchemaParser()
    kept = parser.parse("JSON", "{}")
    parser.parse("JSON", f'{{"title":"{"x" * 1_000}"}}')
    assert parser.parse("JSON", "{}") is kept
