"""A schema that is registered already, in another form: with its references written out, or without the version that
the registry has put into its metadata.
"""

import json
from typing import Any

import pytest

from headwater.registry.decisions import equivalence, registering, settings
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.steps import Rules, run_in_place
from headwater.registry.records import SCHEMA, Key
from unit.registry.twin import Twin, record

USER = record("shop.User", ("name", "string"))
ORDER = record("shop.Order", ("by", "shop.User"))
BOTH = record("shop.Order", ("by", json.loads(USER)))
REFERENCE = {"name": "shop.User", "subject": "user", "version": 1}


def looked_up(twin: Twin, subject: str, schema: str, *, normalize: bool = False, **more: Any) -> int | None:
    """Its version."""
    content = schema_request({"schema": schema, **more}).content
    steps = registering.lookup(twin.registry, subject, content, normalize=normalize, deleted=False)
    found = run_in_place(steps)
    return found.version if found is not None else None


def test_a_schema_with_its_references_written_out_is_the_registered_one() -> None:
    twin = Twin()
    twin.register("user", USER)
    registered = twin.register("order", ORDER, references=[REFERENCE])
    assert looked_up(twin, "order", BOTH) == 1
    assert looked_up(twin, "order", BOTH, normalize=True) == 1
    assert twin.register("order", BOTH) == registered
    assert twin.register("order", BOTH, normalize=True) == registered
    other = record("shop.Order", ("by", json.loads(record("shop.User", ("mail", "string")))))
    assert looked_up(twin, "order", other) is None
    assert looked_up(twin, "order", BOTH, metadata={"properties": {"owner": "us"}}) is None


def test_it_is_also_where_the_config_adds_metadata_to_both() -> None:
    twin = Twin()
    twin.write(settings.set_config(twin.state, "order", {"defaultMetadata": {"properties": {"team": "x"}}}))
    twin.register("user", USER)
    registered = twin.register("order", ORDER, references=[REFERENCE])
    assert twin.register("order", BOTH) == registered


def test_a_schema_without_the_version_in_its_metadata_is_the_registered_one() -> None:
    twin = Twin()
    first = twin.register("s", record("R", ("a", "int")), version=1)
    assert first["metadata"] == {"properties": {"confluent:version": "1"}}
    later = json.loads(record("R", ("a", "int"), ("b", "int")))
    later["fields"][1]["default"] = 0
    assert twin.register("s", json.dumps(later), version=-1)["version"] == 2
    writes = len(twin.log)
    # a producer of yesterday starts again: without this, it would register the old schema as the latest one
    assert twin.register("s", record("R", ("a", "int")))["version"] == 1
    assert len(twin.log) == writes


def test_the_version_in_the_metadata_must_be_that_of_the_registered_schema() -> None:
    twin = Twin()
    twin.register("s", '"int"')
    assert looked_up(twin, "s", '"int"', metadata={"properties": {"confluent:version": "1"}}) == 1
    assert looked_up(twin, "s", '"int"', metadata={"properties": {"confluent:version": "2"}}) is None


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (
            "AVRO",
            record("a.R", ("f", "int")),
            '{"name":"R","namespace":"a","type":"record","fields":[{"name":"f","type":"int"}]}',
        ),
        ("JSON", '{"type":"object","title":"T"}', '{"title":"T","type":"object"}'),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_a_schema_that_was_normalized_is_found_as_it_came_and_the_other_way_round(
    kind: str, first: str, second: str, normalize: bool
) -> None:
    twin = Twin()
    registered = twin.register("s", first, normalize=normalize, schemaType=kind)
    for text in (first, second):
        for each in (False, True):
            assert looked_up(twin, "s", text, normalize=each, schemaType=kind) == 1
            assert twin.register("s", text, normalize=each, schemaType=kind) == registered


@pytest.mark.parametrize(
    ("first", "second"), [('{"const":true}', '{"const":1}'), ('{"const":1}', '{"const":1.0}'), ("{}", "true")]
)
def test_values_of_json_that_python_thinks_equal_are_not(first: str, second: str) -> None:
    twin = Twin()
    twin.register("s", first, schemaType="JSON")
    assert looked_up(twin, "s", second, schemaType="JSON") is None


def test_no_more_than_a_bounded_length_of_versions_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin()
    twin.register("s", record("R", ("f", "int")), normalize=True)
    twin.register("s", record("R", ("f", "int"), ("g", ["null", "int"])), normalize=True, force=True)
    assert looked_up(twin, "s", record("R", ("f", "int"))) == 1
    monkeypatch.setattr(equivalence, "_CHARACTERS_MAX", 100)
    assert looked_up(twin, "s", record("R", ("f", "int"))) is None


def test_a_protobuf_schema_is_found_by_its_normalized_text() -> None:
    twin = Twin()
    text = 'syntax="proto3"; message M {N b=2; int32 a=1; message N {}}'
    registered = twin.register("s", text, schemaType="PROTOBUF")
    assert twin.register("s", text, normalize=True, schemaType="PROTOBUF") == registered


def test_a_version_that_cannot_be_read_here_is_in_nobodys_way() -> None:
    """Another registry accepts names that ours refuses."""
    twin = Twin()
    foreign = record("R", ("a-b", "int"))
    twin.state.apply_record(Key(SCHEMA, "s", 1), {"id": 1, "schema": foreign})
    assert looked_up(twin, "s", '"int"') is None
    twin.write(settings.set_config(twin.state, "s", {"compatibility": "NONE"}))
    assert twin.register("s", '"int"')["version"] == 2
    assert looked_up(twin, "s", '"int"') == 2


@pytest.mark.parametrize("form", ['{"type":"object","title":"T"}', '{"title":"T","type":"object"}'])
def test_a_schema_that_is_imported_with_an_id_gets_that_id(form: str) -> None:
    """Also where the subject has the same schema, in this form or another, with another id."""
    twin = Twin()
    twin.write(settings.set_mode(twin.state, Rules(), None, {"mode": "IMPORT"}, force=True))
    twin.register("s", '{"type":"object","title":"T"}', schemaType="JSON", id=3)
    twin.register("other", form, schemaType="JSON", id=5)
    assert twin.register("s", form, schemaType="JSON", id=5)["id"] == 5
    assert [each.id for each in twin.state.versions("s")] == [3, 5]
    writes = len(twin.log)
    assert twin.register("s", form, schemaType="JSON", id=5)["id"] == 5
    assert len(twin.log) == writes
