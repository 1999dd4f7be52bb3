"""`validateFields`, `validateNewSchemas`, `compatibilityPolicy` and what a subject's config takes from the one for all:
as Confluent's registry has them.
"""

import json
from typing import Any

import pytest

from headwater.registry.decisions import registering, settings
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.steps import Rules, run_in_place
from headwater.registry.records import Key, encode_key
from unit.registry.twin import Twin, code, record

RESERVED = {"properties": {"confluent:reserved": "a, b ,,"}}
MESSAGES = {
    "AVRO": record("R", ("{}", "string")),
    "JSON": '{"type": "object", "properties": {"{}": {"type": "string"}}}',
    "PROTOBUF": 'syntax = "proto3"; message Other { string x = 1; } message M { string {} = 1; }',
}


def opened(*names: str) -> str:
    return json.dumps({"type": "object", "properties": {each: {"type": "string"} for each in names}})


def configured(subject: str | None, rules: Rules | None = None, **given: Any) -> Twin:
    twin = Twin(rules)
    change(twin, subject, **given)
    return twin


def change(twin: Twin, subject: str | None, **given: Any) -> Any:
    return twin.write(settings.set_config(twin.state, subject, given))


def reasons(twin: Twin, subject: str, schema: str, **more: Any) -> list[str]:
    """What POST /compatibility/subjects/{subject}/versions?verbose=true says."""
    request = schema_request({"schema": schema, **more})
    steps = registering.compatibility_check(
        twin.registry, subject, request, twin.state.versions(subject), normalize=False, verbose=True
    )
    found: list[str] = run_in_place(steps)["messages"]
    return found


# The policy


@pytest.mark.parametrize(
    ("own", "everywhere", "is_taken"),
    [
        ({}, {}, False),
        ({"compatibilityPolicy": "lenient"}, {}, True),
        ({}, {"compatibilityPolicy": "LENIENT"}, True),
        ({"compatibilityPolicy": "STRICT"}, {"compatibilityPolicy": "LENIENT"}, False),
        ({"compatibility": "FULL"}, {"compatibilityPolicy": "LENIENT"}, True),
    ],
)
def test_with_a_lenient_policy_a_property_may_be_new_in_an_open_object(
    own: dict[str, Any], everywhere: dict[str, Any], is_taken: bool
) -> None:
    twin = configured(None, **everywhere)
    if own:
        change(twin, "s", **own)
    twin.register("s", opened("a"), schemaType="JSON")
    assert (reasons(twin, "s", opened("a", "b"), schemaType="JSON") == []) == is_taken
    if is_taken:
        assert twin.register("s", opened("a", "b"), schemaType="JSON")["version"] == 2
    else:
        assert code(twin.register, "s", opened("a", "b"), schemaType="JSON") == 40901


def test_a_policy_is_about_json_schema_only() -> None:
    twin = configured("s", compatibilityPolicy="LENIENT")
    twin.register("s", record("R", ("a", "string")))
    assert code(twin.register, "s", record("R", ("a", "string"), ("b", "string"))) == 40901


@pytest.mark.parametrize("given", ["LOGICAL", "kind", "", 7])
def test_a_policy_that_is_not_there_is_refused(given: Any) -> None:
    twin = Twin()
    assert code(settings.set_config, twin.state, "s", {"compatibilityPolicy": given}) == 422


def test_a_policy_that_another_registry_has_stored_is_given_back_and_counts_as_strict() -> None:
    twin = Twin()
    key = encode_key(Key("CONFIG", "s"))
    twin.state.apply(key, b'{"subject":"s","compatibilityLevel":"BACKWARD","compatibilityPolicy":"LOGICAL"}')
    told = settings.config(twin.state, Rules(), "s", default_to_global=False)
    assert told == {"compatibilityLevel": "BACKWARD", "compatibilityPolicy": "LOGICAL"}
    twin.register("s", opened("a"), schemaType="JSON")
    assert code(twin.register, "s", opened("a", "b"), schemaType="JSON") == 40901


def test_a_policy_that_another_registry_has_stored_in_small_letters_is_the_same_one() -> None:
    twin = Twin()
    key = encode_key(Key("CONFIG", "s"))
    twin.state.apply(key, b'{"subject":"s","compatibilityLevel":"BACKWARD","compatibilityPolicy":"lenient"}')
    twin.register("s", opened("a"), schemaType="JSON")
    assert twin.register("s", opened("a", "b"), schemaType="JSON")["version"] == 2


# Fields


def test_names_that_begin_with_two_dollars_are_refused_where_fields_are_validated() -> None:
    twin = configured("s", validateFields=True)
    assert code(twin.register, "s", opened("$$a"), schemaType="JSON") == 42201
    assert any("$$" in each for each in reasons(twin, "s", opened("$$a"), schemaType="JSON"))
    assert twin.register("s", opened("$a", "b$$"), schemaType="JSON")["version"] == 1
    assert twin.register("other", opened("$$a"), schemaType="JSON")["version"] == 1
    change(twin, "s", validateFields=False, compatibility="NONE")
    assert twin.register("s", opened("$$a"), schemaType="JSON")["version"] == 2


@pytest.mark.parametrize(
    ("rules", "everywhere", "own", "is_refused"),
    [
        (Rules(), None, None, False),
        (Rules(validate_fields=True), None, None, True),
        (Rules(validate_fields=True), False, None, False),
        (Rules(), True, None, True),
        (Rules(), True, False, False),
        (Rules(), False, True, True),
    ],
)
def test_the_nearest_setting_decides(rules: Rules, everywhere: bool | None, own: bool | None, is_refused: bool) -> None:
    twin = configured(None, rules, validateFields=everywhere, compatibility="NONE")
    change(twin, "s", compatibility="NONE", validateFields=own)
    if is_refused:
        assert code(twin.register, "s", opened("$$a"), schemaType="JSON") == 42201
    else:
        assert twin.register("s", opened("$$a"), schemaType="JSON")["id"] == 1


def test_what_is_imported_is_taken_as_it_is() -> None:
    twin = configured(None, validateFields=True)
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "IMPORT"}, force=False))
    assert twin.register("s", opened("$$a"), schemaType="JSON", id=7, version=1, metadata=RESERVED)["id"] == 7


@pytest.mark.parametrize("schema_type", MESSAGES)
@pytest.mark.parametrize("level", ["NONE", "BACKWARD"])
def test_a_field_that_the_metadata_reserves_cannot_be_used(schema_type: str, level: str) -> None:
    """Also by the first version, and at any level."""
    twin = configured("s", validateFields=True, compatibility=level)
    taken, free = MESSAGES[schema_type].replace("{}", "a"), MESSAGES[schema_type].replace("{}", "c")
    assert code(twin.register, "s", taken, schemaType=schema_type, metadata=RESERVED) == 40901
    first, last = reasons(twin, "s", taken, schemaType=schema_type, metadata=RESERVED)
    assert first == "The new schema has a field a, which its metadata reserves"
    assert last == f"{{validateFields: 'true', compatibility: '{level}'}}"
    assert twin.register("s", free, schemaType=schema_type, metadata=RESERVED)["version"] == 1


def test_a_field_that_was_reserved_stays_so() -> None:
    twin = configured("s", validateFields=True, compatibility="NONE")
    twin.register("s", record("R", ("x", "string")), metadata=RESERVED)
    fewer = {"properties": {"confluent:reserved": "b,c"}}
    assert code(twin.register, "s", record("R", ("y", "string")), metadata=fewer) == 40901
    told = reasons(twin, "s", record("R", ("y", "string")), metadata=fewer)
    assert told[0] == "The field a is reserved in the metadata of the old schema, and not in that of the new one"
    more = {"properties": {"confluent:reserved": "c,b,a"}}
    assert twin.register("s", record("R", ("y", "string")), metadata=more)["version"] == 2


def test_nothing_is_reserved_where_fields_are_not_validated() -> None:
    twin = configured("s", compatibility="NONE")
    assert twin.register("s", record("R", ("a", "string")), metadata=RESERVED)["version"] == 1
    assert twin.register("s", record("R", ("b", "string")))["version"] == 2


def test_reasons_end_with_the_settings_that_they_are_for() -> None:
    twin = Twin()
    twin.register("s", '"int"')
    *_, version, settings_ = reasons(twin, "s", '"string"')
    assert (version, settings_) == ("{oldSchemaVersion: 1}", "{validateFields: 'false', compatibility: 'BACKWARD'}")


# New schemas, and those that were there before

OLD = '{"type": "record", "name": "R", "namespace": "my-team", "fields": [{"name": "a", "type": "int", "default": ""}]}'


def test_a_schema_whose_defaults_nobody_looked_at_when_it_was_registered_goes_on() -> None:
    """Another registry has stored it: before its time, or with `validateNewSchemas` off."""
    twin = Twin()
    value = {"subject": "s", "version": 1, "id": 1, "schema": OLD, "deleted": False}
    twin.state.apply(encode_key(Key("SCHEMA", "s", 1)), json.dumps(value).encode())
    again = OLD.replace('""', "0").replace("my-team", "my_team")
    change(twin, "s", compatibility="BACKWARD_TRANSITIVE")
    assert code(twin.register, "s", '"int"') == 40901
    assert twin.register("s", again)["version"] == 2
    assert twin.register("s", OLD)["version"] == 1  # it is known


@pytest.mark.parametrize(
    ("rules", "given", "is_refused"),
    [
        (Rules(), None, True),
        (Rules(), False, False),
        (Rules(validate_new_schemas=False), None, False),
        (Rules(validate_new_schemas=False), True, True),
    ],
)
def test_names_and_defaults_of_new_schemas_are_looked_at_unless_a_setting_says_no(
    rules: Rules, given: bool | None, is_refused: bool
) -> None:
    twin = configured("s", rules, validateNewSchemas=given)
    for text in (OLD, OLD.replace('""', "0"), OLD.replace("my-team", "my_team")):
        if is_refused:
            assert code(twin.register, "s", text) == 42201
            assert any("not an Avro schema" in each for each in reasons(twin, "s", text))
    if not is_refused:
        assert twin.register("s", OLD)["id"] == 1
    assert code(twin.register, "other", '{"type": "record", "name": "R"}') == 42201  # no schema at all


# What a subject takes from the config for all


def test_a_subject_with_a_config_of_its_own_is_not_given_what_all_others_are() -> None:
    twin = configured(None, defaultMetadata={"properties": {"team": "all"}}, normalize=True)
    change(twin, "own", compatibility="FULL")
    assert "metadata" not in twin.register("own", '"int"')
    assert twin.register("other", '"int"')["metadata"] == {"properties": {"team": "all"}}
    assert settings.config_in_scope(twin.state, Rules(), "own")["normalize"] is True
