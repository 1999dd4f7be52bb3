"""JSON a run of records at a time gives what it gives record by record, and refuses what is no record by itself."""

import json
import pickle
import random
from typing import Any

import pytest
from pyspark import cloudpickle

from headwater.sql.formats import json_columns
from headwater.sql.formats.json_rows import JsonFormat
from headwater.sql.formats.port import Field, FormatOptions, RowError
from headwater.sql.language import types as t

_FIELDS = [
    Field("I", t.INTEGER),
    Field("L", t.BIGINT),
    Field("D", t.DOUBLE),
    Field("S", t.STRING),
    Field("B", t.BOOLEAN),
    Field("DEC", t.decimal(6, 2)),
    Field("100%", t.STRING),
]
_NESTED = [*_FIELDS, Field("A", t.array(t.DOUBLE)), Field("M", t.mapping(t.STRING, t.STRING))]
_SPELLINGS: dict[str, list[str]] = {
    "I": ["1", "-7", "null", "2147483648", "1.9", '"12"', "1e2"],
    "L": ["9", "null", "9223372036854775808", "-1.5", '"3"'],
    "D": ["1", "2.5", "1e400", "null", '"2.5"', "12345678901234567890", "-0.0"],
    "S": ['"x"', '"é\\u20ac"', '"\\ud800"', "1.50", "1e3", "null", "true", '{"a": 1.50}', "17"],
    "B": ["true", "false", "null", '"true"'],
    "DEC": ["1.25", "3", "null", '"4.5"', "1.005"],
    "100%": ['"a"', "null"],
    "A": ["[1, 2.5, null]", "null", "[]"],
    "M": ['{"k": 1.50, "j": "x"}', "null", "{}"],
}


def _text(chance: random.Random, fields: list[Field], spelling: dict[str, str]) -> bytes:
    """`spelling`: how names are written in all records of a run; other names as it comes."""
    pairs = [
        (
            spelling.get(each.name) or chance.choice((each.name, each.name.lower())),
            chance.choice(_SPELLINGS[each.name][: chance.choice((2, 9))]),
        )
        for each in fields
        if chance.random() < 0.9
    ]
    if chance.random() < 0.3:
        pairs.append((chance.choice(("other", "Another")), "[1.5, {}]"))
    chance.shuffle(pairs)
    return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs) + "}").encode()


@pytest.mark.parametrize("fields", [_FIELDS, _NESTED], ids=["plain", "nested"])
def test_a_run_is_read_and_written_as_its_records_are(fields: list[Field]) -> None:
    serde: Any = JsonFormat().serde(fields, FormatOptions())
    read = 0
    for seed in range(150):
        chance = random.Random(seed)
        spelling = {each.name: chance.choice((each.name, each.name.lower())) for each in fields if seed % 3}
        count = chance.randint(1, 6)
        cells = [None if chance.random() < 0.1 else _text(chance, fields, spelling) for _ in range(count)]
        try:
            wanted = [None if cell is None else serde.deserialize(cell) for cell in cells]
        except RowError:
            with pytest.raises(Exception):  # noqa: B017 - nobody reads what it says
                serde.deserialize_all(cells)
            continue
        found = serde.deserialize_all(cells)
        assert repr(found) == repr(wanted), f"seed {seed}: {cells}"
        assert serde.serialize_all(found) == [None if row is None else serde.serialize(row) for row in wanted]
        read += 1
    assert read > 50


@pytest.mark.parametrize(
    "cells",
    [
        [b'{"I":1},{"I":2}', b'{"I":3}'],
        [b'{"I":1', b'"L":2}'],
        [b'{"S":"a', b'{"b"}', b'{"I":1},{"I":2},{"I":3}'],
        [b'{"I":1}]', b'[{"I":1}'],
        [b'{"A":[1', b"{2]}", b'{"I":1},{"I":2},{"I":3}'],
        [b'{"other":[1', b"{}]}", b'{"I":1},{"I":2},{"I":3}'],
        [b'{"I":NaN}', b'{"I":1}'],
    ],
)
def test_records_that_are_no_json_by_themselves_do_not_become_some_together(cells: list[bytes]) -> None:
    serde: Any = JsonFormat().serde(_NESTED, FormatOptions())
    with pytest.raises(Exception):  # noqa: B017
        serde.deserialize_all(cells)


def test_who_knew_the_word_between_could_join_records() -> None:
    """So it is made anew by each process, and stands in no message."""
    serde: Any = JsonFormat().serde(_FIELDS, FormatOptions())
    word = json_columns._BETWEEN
    assert len(word) == 16
    assert serde.deserialize_all([b'{"I":1}', b'{"I":2}']) == [[1, *[None] * 6], [2, *[None] * 6]]
    with pytest.raises(RowError) as told:
        serde.deserialize_all([b'{"I":"a"}', b'{"I":1}'])
    assert word not in str(told.value)


@pytest.mark.parametrize("at_once", [5, 10], ids=["by the run", "one by one"])
@pytest.mark.parametrize("size", [1, 20_000])
def test_names_of_fields_that_no_column_has_are_kept_to_a_bound(at_once: int, size: int) -> None:
    serde: Any = JsonFormat().serde(_FIELDS, FormatOptions())
    for number in range(3 * json_columns._KEPT_MAX // (at_once * 20_000)):
        names = [b"%d" % each + b"x" * size for each in range(at_once * number, at_once * (number + 1))]
        cells = [b'{"%b": 1, "i": 5}' % each for each in names]
        assert [row[0] for row in serde.deserialize_all(cells)] == [5] * at_once
    kept = [*serde._together._taken, *(name for each in serde._together._shapes for name in each)]
    assert sum(map(len, kept)) <= json_columns._KEPT_MAX + 100
    assert size > 1 or len(kept) > 100


def test_what_is_kept_of_names_has_a_bound_however_many_they_are() -> None:
    """A record of one topic may have thousands of names, and the next others."""
    serde: Any = JsonFormat().serde(_FIELDS, FormatOptions())
    for number in range(10):
        fields = ", ".join(f'"{number}.{each}": 1' for each in range(4_000))
        assert serde.deserialize_all([f'{{"i": 7, {fields}}}'.encode()] * 2) == [[7, *[None] * 6]] * 2
    assert sum(map(len, serde._together._shapes)) <= json_columns._KEPT_MAX // json_columns._PER_NAME


def test_a_serde_that_has_read_a_run_still_travels() -> None:
    serde: Any = JsonFormat().serde(_FIELDS, FormatOptions())
    cells = [b'{"I":1}', b'{"I":2}']
    rows = serde.deserialize_all(cells)
    assert pickle.loads(cloudpickle.dumps(serde)).deserialize_all(cells) == rows


def test_a_column_that_a_record_has_twice_is_refused_in_a_run_as_it_is_alone() -> None:
    serde: Any = JsonFormat().serde([Field("N", t.INTEGER)], FormatOptions())
    for cell in (b'{"n":true,"N":1}', b'{"N":true,"n":1}'):
        for cells in ([cell], [cell, cell]):
            with pytest.raises(RowError, match="field N"):
                serde.deserialize_all(cells)
    assert serde.deserialize_all([b'{"n":2,"N":1}'] * 2) == [[1], [1]]


@pytest.mark.parametrize("number", [b"1e99999999999999999999", b"-1e-99999999999999999999", b"1e3000"])
@pytest.mark.parametrize("kind", [t.INTEGER, t.array(t.DOUBLE)], ids=["plain", "nested"])
def test_a_number_beyond_all_exponents_in_a_field_that_no_column_has_holds_up_nothing(number: bytes, kind: Any) -> None:
    serde: Any = JsonFormat().serde([Field("N", kind)], FormatOptions())
    cell = b'{"other":%s}' % number
    assert serde.deserialize(cell) == [None]
    assert serde.deserialize_all([cell, cell]) == [[None], [None]]


@pytest.mark.parametrize("wanted", [t.INTEGER, t.BIGINT, t.DOUBLE, t.decimal(6, 2), t.STRING, t.BOOLEAN])
@pytest.mark.parametrize("number", [b"1e99999999999999999999", b"-1e-99999999999999999999"])
def test_a_number_beyond_all_exponents_is_the_same_alone_and_in_a_run(number: bytes, wanted: Any) -> None:
    serde: Any = JsonFormat().serde([Field("N", wanted)], FormatOptions())
    cell = b'{"N":%s}' % number
    found = []
    for read in (lambda: serde.deserialize(cell), lambda: serde.deserialize_all([cell, cell])[0]):
        try:
            found.append(repr(read()))
        except RowError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b'"\\ud83d"', "?"),
        (b'"\\uD83D\\uDE00 \\uDE00"', "\U0001f600 ?"),
        (b'"\\ud83d\\ud83d\\ude00"', "?\U0001f600"),
        (b'"\\\\ud83d"', "\\ud83d"),
        (b'"\\\\\\ud83d"', "\\?"),
        (b'"\\ud7ff\\ue000"', "\ud7ff\ue000"),
        (b'"\xed\xa0\xbd"', "?"),
        (b'"\xed\xa0\xbd\xed\xb8\x80"', "\U0001f600"),
    ],
)
def test_half_a_character_is_a_question_mark(text: bytes, read: str) -> None:
    """It has no bytes: a query that writes AVRO ended at such a text, and never came past it."""
    serde: Any = JsonFormat().serde([Field("S", t.STRING), Field("M", t.mapping(t.STRING, t.STRING))], FormatOptions())
    data = b'{"S": ' + text + b', "M": {' + text + b": " + text + b"}}"
    assert serde.deserialize(data) == [read, {read: read}]
    assert serde.deserialize_all([data, data]) == [[read, {read: read}]] * 2
    alone: Any = JsonFormat().serde([Field("S", t.STRING)], FormatOptions(wrap_single=False))
    assert alone.deserialize(text) == [read]
