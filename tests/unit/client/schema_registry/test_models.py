"""Schemas of Python's own classes, and their objects to values and back."""

import datetime
import enum
import json
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import jsonschema
import pydantic
import pytest

from headwater.base.errors import UserError
from headwater.client.schema_registry.models import (
    DecimalDigits,
    avro_schema,
    build,
    from_json,
    json_schema,
    to_json,
    to_plain,
)
from headwater.schemas import SchemaType, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.encoding import compile_writer


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    day: datetime.date
    price: Annotated[Decimal, DecimalDigits(10, 2)]
    lines: list[Line]
    by_name: dict[str, Line]
    color: Color
    note: str | None = None
    first: Line | None = None
    weight: float = 0.5
    seen: bool = False
    data: bytes = b""
    parent: "Order | None" = None
    tags: set[str] = field(default_factory=set)


class Model(pydantic.BaseModel):
    name: str
    lines: list[Line] = []
    color: Color = Color.RED
    age: int | None = None


ORDER = Order(
    uuid.UUID(int=1),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC),
    datetime.date(2024, 1, 2),
    Decimal("12.50"),
    [Line("a"), Line("b", 2)],
    {"x": Line("c")},
    Color.BLUE,
    first=Line("d"),
    data=b"\x00",
    parent=Order(uuid.UUID(int=2), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.date(2024, 1, 1), Decimal("0.00"), [], {}, Color.RED),
    tags={"t"},
)  # fmt: skip


@pytest.mark.parametrize("value", [ORDER, Line("x", 5), Model(name="n", lines=[Line("a")], color=Color.BLUE)])
def test_an_object_becomes_avro_and_an_object_again(value: Any) -> None:
    parsed = parse(SchemaType.AVRO, json.dumps(avro_schema(type(value))))
    assert isinstance(parsed, AvroSchema)
    data = compile_writer(parsed.root)(to_plain(value))
    assert build(type(value), compile_reader(parsed.root)(data)) == value


def test_the_avro_schema_of_a_class() -> None:
    assert avro_schema(Line) == {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "long", "default": 1}],
    }
    fields = {each["name"]: each for each in avro_schema(Order)["fields"]}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["parent"] == {"name": "parent", "type": ["null", "Order"], "default": None}
    assert fields["color"]["type"] == {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}


def test_the_json_schema_of_a_class() -> None:
    assert json_schema(Line) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "Line",
        "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
        "additionalProperties": False,
        "required": ["sku"],
    }
    assert json_schema(Model)["title"] == "Model"
    parse(SchemaType.JSON, json.dumps(json_schema(Model)))


def test_an_object_becomes_json_and_an_object_again() -> None:
    @dataclass
    class Small:
        at: datetime.datetime
        id: uuid.UUID
        price: Decimal
        line: Line | None = None

    value = Small(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), uuid.UUID(int=3), Decimal("1.5"), Line("x"))
    plain = json.loads(json.dumps(to_json(value)))
    assert build(Line, plain["line"]) == Line("x")
    assert build(uuid.UUID, plain["id"]) == value.id
    assert build(datetime.datetime, plain["at"]) == value.at


def test_types_without_a_schema_are_told() -> None:
    @dataclass
    class Odd:
        a: object

    @dataclass
    class Money:
        a: Decimal

    for model, make in ((Odd, avro_schema), (Odd, json_schema), (Money, avro_schema), (Order, json_schema)):
        with pytest.raises(UserError):
            make(model)


class Hue(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Aliased(pydantic.BaseModel):
    hue: Hue = Hue.RED
    number: int = pydantic.Field(alias="theNumber")
    price: Decimal = Decimal("1.50")
    at: datetime.datetime | None = None
    data: bytes = b""


def test_a_pydantic_model_is_written_as_its_own_json_schema_says() -> None:
    """It was written by names, and enums by theirs: its own schema, which was registered with it, refused that."""
    value = Aliased(hue=Hue.BLUE, theNumber=3, at=datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), data=b"x")
    written = to_json(value)
    jsonschema.validate(written, json_schema(Aliased))
    assert (written["hue"], written["theNumber"], written["data"]) == ("blue", 3, "x")
    assert from_json(Aliased, written, json.dumps(written).encode()) == value


def test_a_field_with_an_alias_comes_back_from_avro() -> None:
    value = Aliased(theNumber=3)
    assert build(Aliased, {**to_plain(value), "hue": "RED"}) == value
