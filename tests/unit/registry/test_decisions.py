"""Requests and what is decided about them: a registry of pure parts, whose log is a list."""

import json
from typing import Any

import pytest

from headwater.registry import records
from headwater.registry.decisions import deleting, reading, registering, settings
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Page, Rules, run_in_place
from headwater.registry.state import State
from headwater.web.messages import HttpError
from unit.registry.twin import Twin, code, record


def test_the_same_schema_has_the_same_id_and_a_new_one_the_next() -> None:
    twin = Twin()
    first = twin.register("a", '"string"')
    assert (first["id"], first["version"]) == (1, 1)
    assert first["guid"] == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"  # MD5 of the text
    assert twin.register("a", '  "string" ') == first  # again: nothing is written
    assert len(twin.log) == 1
    assert twin.register("b", '{"type": "string"}')["id"] == 1
    assert twin.register("b2", '"int"')["id"] == 2
    assert twin.register(":.ctx:a", '"int"')["id"] == 1  # each context has its own ids
    assert twin.state.subjects == twin.compacted().subjects


def test_records_are_confluents_byte_for_byte() -> None:
    twin = Twin()
    twin.register("s", '"string"')
    twin.register(":.c:s", '"int"')
    twin.write(settings.set_config(twin.state, None, {"compatibility": "full"}))
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "READONLY"}, force=False))
    twin.write(settings.delete_mode(twin.state, Rules(), "s", recursive=False))
    twin.write(deleting.delete_subject(twin.state, "s", permanent=False))
    assert twin.log == [
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}',
        ),
        (b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}', b'{"tenant":"default","context":".c"}'),
        (
            b'{"keytype":"SCHEMA","subject":":.c:s","version":1,"magic":1}',
            b'{"subject":":.c:s","version":1,"id":1,"schemaType":"AVRO","schema":"\\"int\\"","deleted":false}',
        ),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"subject":"s","mode":"READONLY"}'),
        (b'{"keytype":"MODE","subject":"s","magic":0}', None),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":1}'),
    ]


def test_an_id_is_not_given_again_even_after_everything_was_deleted_and_compacted() -> None:
    twin = Twin()
    twin.register("a", '"string"')
    twin.register("b", '"int"')
    twin.write(deleting.delete_subject(twin.state, "b", permanent=False))
    twin.write(deleting.delete_subject(twin.state, "b", permanent=True))
    twin.registry = Registry(twin.compacted(), Rules(), SchemaParser())
    assert twin.register("c", '"long"')["id"] == 3
    assert twin.register("b", '"int"')["id"] == 4  # it was forgotten for good


def test_a_soft_deleted_schema_comes_back_with_its_id_and_a_new_version() -> None:
    twin = Twin()
    twin.register("a", '"string"')
    assert twin.write(deleting.delete_subject(twin.state, "a", permanent=False)) == [1]
    assert code(reading.one_version, twin.state, "a", 1) == 40401
    assert reading.one_version(twin.state, "a", 1, deleted=True).deleted
    again = twin.register("a", '"string"')
    assert (again["id"], again["version"]) == (1, 2)
    assert [each.version for each in twin.compacted().versions("a", deleted=True)] == [2]


@pytest.mark.parametrize(
    ("level", "later", "accepted"),
    [
        ("BACKWARD", record("R"), True),
        ("BACKWARD", record("R", ("a", "int"), ("b", "int")), False),
        ("FORWARD", record("R", ("a", "int"), ("b", "int")), True),
        ("FORWARD", record("R"), False),
        ("FULL", record("R"), False),
        ("NONE", '"string"', True),
    ],
)
def test_the_level_of_the_subject_decides(level: str, later: str, accepted: bool) -> None:
    twin = Twin()
    twin.register("s", record("R", ("a", "int")))
    twin.write(settings.set_config(twin.state, "s", {"compatibility": level}))
    checked = run_in_place(
        registering.compatibility_check(
            twin.registry,
            "s",
            schema_request({"schema": later}),
            twin.state.versions("s"),
            normalize=False,
            verbose=True,
        )
    )
    assert checked["is_compatible"] is accepted
    assert bool(checked["messages"]) is not accepted
    if accepted:
        assert twin.register("s", later)["version"] == 2
    else:
        assert code(twin.register, "s", later) == 40901
        assert twin.register("s", later, force=True)["version"] == 2


def test_transitive_levels_look_at_every_version() -> None:
    one, two = record("R", ("a", "int")), json.dumps({"type": "record", "name": "R", "fields": []})
    three = record("R", ("a", "string"))
    for level, accepted in (("BACKWARD", False), ("FORWARD", True), ("FORWARD_TRANSITIVE", False)):
        twin = Twin()
        twin.write(settings.set_config(twin.state, None, {"compatibility": "NONE"}))
        twin.register("s", one)
        twin.register("s", two)
        twin.write(settings.set_config(twin.state, "s", {"compatibility": level}))
        if accepted:
            twin.register("s", three)
        else:
            assert code(twin.register, "s", three) == 40901


def test_references_are_resolved_kept_and_protect_what_they_name() -> None:
    twin = Twin()
    twin.register("inner", record("Inner", ("a", "int")))
    outer = record("Outer", ("x", "Inner"))
    reference = {"name": "Inner", "subject": "inner", "version": 1}
    assert code(twin.register, "outer", outer) == 42201
    assert code(twin.register, "outer", outer, references=[{**reference, "version": 9}]) == 42201
    latest = twin.register("outer", outer, references=[{**reference, "version": -1}])
    assert latest["references"] == [reference]  # the latest is named when it is stored
    assert reading.referenced_by(twin.state, "inner", 1, Page(), deleted=False) == [latest["id"]]
    assert code(deleting.delete_version, twin.state, "inner", 1, permanent=False) == 42206
    assert code(deleting.delete_subject, twin.state, "inner", permanent=False) == 42206
    twin.write(deleting.delete_subject(twin.state, "outer", permanent=False))
    twin.write(deleting.delete_subject(twin.state, "inner", permanent=False))
    assert (
        code(deleting.delete_subject, twin.state, "inner", permanent=True) == 42206
    )  # the soft-deleted one may come back


def test_deletion_is_soft_first() -> None:
    twin = Twin()
    twin.register("s", record("R", ("a", "int")))
    twin.register("s", record("R"))
    state = twin.state
    assert code(deleting.delete_version, state, "nope", 1, permanent=False) == 40401
    assert code(deleting.delete_version, state, "s", 9, permanent=False) == 40402
    assert code(deleting.delete_version, state, "s", 1, permanent=True) == 40407
    assert twin.write(deleting.delete_version(state, "s", None, permanent=False)) == 2
    assert code(deleting.delete_version, state, "s", 2, permanent=False) == 40406
    assert code(deleting.delete_subject, state, "s", permanent=True) == 40405
    assert reading.list_versions(state, "s", Page(), deleted=False, deleted_only=False, deleted_as_negative=True) == [
        1,
        -2,
    ]
    assert twin.write(deleting.delete_subject(state, "s", permanent=False)) == [1]
    assert code(deleting.delete_subject, state, "s", permanent=False) == 40404
    assert reading.list_subjects(state, ":*:", Page(), deleted=False, deleted_only=False) == []
    assert reading.list_subjects(state, ":*:", Page(), deleted=False, deleted_only=True) == ["s"]
    assert twin.write(deleting.delete_subject(state, "s", permanent=True)) == [1, 2]
    assert code(deleting.delete_subject, state, "s", permanent=False) == 40401
    assert twin.register("s", '"int"')["version"] == 1


def test_import_mode_keeps_the_ids_that_it_is_given() -> None:
    twin = Twin()
    twin.register("other", '"int"')
    assert code(twin.register, "s", '"string"', id=42) == 42205
    assert code(settings.set_mode, twin.state, Rules(), None, {"mode": "IMPORT"}, force=False) == 42205
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "import"}, force=False))
    assert code(twin.register, "s", '"string"') == 42205
    made = twin.register("s", '"string"', id=42, version=7)
    assert (made["id"], made["version"]) == (42, 7)
    assert twin.register("s", '"string"', id=42, version=7) == made
    assert code(twin.register, "s", '"long"', id=42, version=8) == 42205  # another schema has that id
    twin.write(settings.delete_mode(twin.state, Rules(), "s", recursive=False))
    assert twin.register("new", '"double"')["id"] == 43


def test_a_version_that_an_import_replaces_leaves_its_id_taken() -> None:
    """Compaction took the only record with the highest id, and the next start gave that id to another schema."""
    twin = Twin()
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "IMPORT"}, force=False))
    twin.register("s", '"string"', id=42, version=1)
    twin.register("s", '"int"', id=7, version=1)
    twin.registry = Registry(twin.compacted(), Rules(), SchemaParser())
    assert twin.register("other", '"long"')["id"] == 43


def test_behind_the_last_id_nothing_new_is_registered_and_the_rest_goes_on() -> None:
    """The next schema got the id 2^31, which no serializer can write and no path of the registry takes."""
    twin, last = Twin(), 2**31 - 1
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "IMPORT"}, force=False))
    assert twin.register("s", '"string"', id=last, version=last)["id"] == last
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "READWRITE"}, force=False))
    for state in (twin.state, twin.compacted()):
        twin.registry = Registry(state, Rules(), SchemaParser())
        with pytest.raises(HttpError, match="No schema id is left") as caught:
            twin.register("t", '"int"')
        assert caught.value.code == 42205
    assert twin.register("s", '"string"')["version"] == last
    assert twin.register("t", '"string"')["id"] == last  # what has an id can still come under other subjects
    assert twin.register(":.c:t", '"int"')["id"] == 1


def test_behind_the_last_version_of_a_subject_nothing_new_is_registered_there() -> None:
    twin, last = Twin(), 2**31 - 1
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "IMPORT"}, force=False))
    twin.register("s", '"string"', id=5, version=last)
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "READWRITE"}, force=False))
    with pytest.raises(HttpError, match="No version is left") as caught:
        twin.register("s", '"string"', metadata={"properties": {"a": "b"}})
    assert caught.value.code == 42205
    assert twin.register("t", '"int"')["id"] == 6


def test_a_subject_stays_deleted_when_an_import_and_a_second_deletion_came_behind() -> None:
    """The second one's record replaced the first one's, and told of lower versions only."""
    twin = Twin()
    twin.register("s", '"string"')
    twin.register("s", '"string"', metadata={"properties": {"a": "b"}})
    twin.write(deleting.delete_subject(twin.state, "s", permanent=False))
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "IMPORT"}, force=True))
    twin.register("s", '"string"', id=1, version=1)
    assert twin.write(deleting.delete_subject(twin.state, "s", permanent=False)) == [1]
    assert twin.compacted().versions("s") == twin.state.versions("s") == []


def test_a_read_only_subject_gives_what_it_has_and_takes_nothing() -> None:
    twin = Twin()
    twin.register("s", '"int"')
    twin.write(settings.set_mode(twin.state, Rules(), None, {"mode": "READONLY"}, force=False))
    assert twin.register("s", '"int"')["id"] == 1
    assert code(twin.register, "s", '"long"') == 42205
    assert code(deleting.delete_subject, twin.state, "s", permanent=False) == 42205
    assert code(settings.set_config, twin.state, "s", {"compatibility": "NONE"}) == 42205
    assert (
        code(settings.set_mode, twin.state, Rules(mode_mutable=False), None, {"mode": "READWRITE"}, force=False)
        == 42205
    )


def test_settings_are_looked_for_in_the_subject_the_context_and_for_all() -> None:
    twin = Twin(Rules(compatibility="FULL"))
    state, rules = twin.state, twin.registry.rules
    assert settings.config(state, rules, None, default_to_global=False) == {"compatibilityLevel": "FULL"}
    assert code(settings.config, state, rules, "s", default_to_global=False) == 40408
    assert code(settings.mode, state, "s", default_to_global=False) == 40409
    twin.write(settings.set_config(state, ":.c:", {"compatibility": "NONE"}))
    twin.write(settings.set_config(state, None, {"compatibility": "FORWARD", "normalize": True}))
    in_scope = {
        each: settings.config(state, rules, each, default_to_global=True)["compatibilityLevel"]
        for each in ("s", ":.c:s")
    }
    assert in_scope == {"s": "FORWARD", ":.c:s": "NONE"}
    twin.write(settings.set_config(state, "s", {"compatibility": "BACKWARD"}))
    own = settings.config(state, rules, "s", default_to_global=True)
    assert own == {"normalize": True, "compatibilityLevel": "BACKWARD"}
    assert code(settings.set_config, state, None, {"compatibility": "SOMETIMES"}) == 42203
    assert twin.write(settings.delete_config(state, rules, "s")) == {"compatibilityLevel": "BACKWARD"}
    assert code(settings.delete_config, state, rules, "s") == 40401


def test_metadata_and_rules_are_stored_and_inherited() -> None:
    twin = Twin()
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "a > 1"}]}
    first = twin.register("s", '"int"', metadata={"properties": {"owner": "us"}, "tags": {"a": ["PII"]}}, ruleSet=rules)
    assert first["metadata"] == {"tags": {"a": ["PII"]}, "properties": {"owner": "us"}}
    assert first["ruleSet"]["domainRules"][0]["disabled"] is False
    assert twin.register("s", '"long"')["metadata"] == first["metadata"]
    assert reading.latest_with_metadata(twin.state, "s", {"owner": "us"}, deleted=False).version == 2
    assert code(reading.latest_with_metadata, twin.state, "s", {"owner": "them"}, deleted=False) == 40403
    assert code(twin.register, "s", '"long"', ruleSet={"domainRules": [{"doc": "no name"}]}) == 42210
    twin.write(settings.set_config(twin.state, "t", {"defaultMetadata": {"properties": {"team": "x"}}}))
    assert twin.register("t", '"int"')["metadata"] == {"properties": {"team": "x"}}
    assert twin.state.subjects == twin.compacted().subjects


def test_normalizing_makes_one_schema_of_two_spellings() -> None:
    twin = Twin()
    plain = {"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "a", "type": "int"}]}
    other = {"name": "n.R", "type": "record", "fields": [{"type": "int", "name": "a"}]}
    first = twin.register("s", json.dumps(plain), normalize=True)
    assert twin.register("s", json.dumps(other), normalize=True) == first


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, 42201),
        ({"schema": ""}, 42201),
        ({"schema": 1}, 42201),
        ({"schema": "{"}, 42201),
        ({"schema": '"int"', "schemaType": "XML"}, 42201),
        ({"schema": '"int"', "references": [{"name": "x"}]}, 42201),
        ({"schema": '"\ud800"'}, 42201),
        ({"schema": '"' + "x" * 2_000_000 + '"'}, 42209),
        ({"schema": '{"type":"array","items":' * 400 + '"int"' + "}" * 400}, 42201),
        ({"schema": '"int"', "id": "1"}, 422),
        ({"schema": '"int"', "metadata": []}, 422),
        ([], 422),
    ],
)
def test_what_is_no_schema_is_refused_and_nothing_is_stored(document: Any, expected: int) -> None:
    twin = Twin()

    def send() -> None:
        steps = registering.registration(twin.registry, "s", schema_request(document))
        twin.write(run_in_place(steps))

    assert code(send) == expected
    assert twin.log == []


@pytest.mark.parametrize(
    "subject", ["", "a\nb", "\x00", "x" * 2000, ":.c:", ":*:s", "\ud800", "__GLOBAL", ":.c:__EMPTY", ":.__GLOBAL:s"]
)
def test_names_that_are_no_subject(subject: str) -> None:
    assert code(Twin().register, subject, '"int"') == 42208


def test_a_chain_of_references_that_ends_in_itself_is_bounded() -> None:
    twin = Twin()
    twin.register("a", '"int"')
    state = twin.state
    for name, other in (("x", "y"), ("y", "x")):  # a damaged topic: nobody could register this
        value = {"subject": name, "version": 1, "id": 7 if name == "x" else 8, "schema": record(name.upper())}
        value["references"] = [{"name": other, "subject": other, "version": 1}]
        state.apply_record(records.Key(records.SCHEMA, name, 1), value)
    reference = {"name": "x", "subject": "x", "version": 1}
    assert code(twin.register, "s", record("S", ("f", "X")), references=[reference]) == 42201


def test_damaged_records_are_left_out_and_the_rest_is_served() -> None:
    state = State()
    good = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    value = b'{"subject":"s","version":1,"id":5,"schema":"\\"int\\"","deleted":false}'
    for key, data in (
        (None, b"x"),
        (b"{", b"x"),
        (b'{"keytype":"ASSOC"}', b"{}"),
        (good, b"[]"),
        (good, b'{"id":"x"}'),
        (b'{"keytype":"SCHEMA","version":1}', value),
        (good, value),
        (
            b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}',
            value.replace(b"int", b"long"),
        ),  # the id is taken
        (b'{"keytype":"NOOP","magic":0}', None),
    ):
        state.apply(key, data)
    assert [each.id for each in state.with_id(".", 5)] == [5]
    assert list(state.subjects) == ["s"]
    assert state.next_id(".") == 6


def test_an_alias_stands_for_another_subject() -> None:
    twin = Twin()
    twin.register("real", '"int"')
    twin.write(settings.set_config(twin.state, "nick", {"alias": "real"}))
    assert settings.alias_of(twin.state, "nick") == "real"
    assert settings.alias_of(twin.state, "real") == "real"


def test_ids_are_found_by_subject_in_other_contexts() -> None:
    twin = Twin()
    twin.register("a", '"int"')
    twin.register(":.c:b", '"long"')
    state = twin.state
    assert reading.version_with_id(state, 1, None).subject == "a"
    assert reading.version_with_id(state, 1, "b").subject == ":.c:b"
    assert reading.version_with_id(state, 1, ":.c:").subject == ":.c:b"
    assert code(reading.version_with_id, state, 2, None) == 40403
    assert reading.one_version(state, "b", None).subject == ":.c:b"
    assert reading.ids_of_guid(state, reading.version_with_id(state, 1, "b").guid) == [{"context": ".c", "id": 1}]
    assert reading.list_contexts(state, "", Page()) == [".", ".c"]
    assert reading.list_subjects(state, ":.c:", Page(), deleted=False, deleted_only=False) == [":.c:b"]
    assert reading.list_subjects(state, ":.:", Page(), deleted=False, deleted_only=False) == ["a"]
    assert reading.list_subjects(state, "", Page(), deleted=False, deleted_only=False) == [":.c:b", "a"]
    assert reading.list_subjects(state, ":.", Page(), deleted=False, deleted_only=False) == [":.c:b"]
    assert reading.list_subjects(state, ":*:b", Page(), deleted=False, deleted_only=False) == [":.c:b"]
    for subject, expected in ((None, ["a"]), ("b", [":.c:b"]), ("a", ["a"]), ("nobody", ["a"])):
        found = reading.versions_with_id(state, 1, subject, deleted=False)
        assert [each.subject for each in found] == expected
    assert code(deleting.delete_context, state, ":.c:") == 42211
    twin.write(deleting.delete_subject(state, ":.c:b", permanent=False))
    twin.write(deleting.delete_subject(state, ":.c:b", permanent=True))
    twin.write(deleting.delete_context(state, ":.c:"))
    assert reading.list_contexts(state, "", Page()) == ["."]


@pytest.mark.parametrize(
    ("page", "items"),
    [
        (Page(), [1, 2, 3]),
        (Page(1, 1), [2]),
        (Page(5), []),
        (Page(-1, 2), [1, 2]),
        (Page(0, 9, 1, 2), [1]),  # more than is allowed, or none: as if nothing was said
        (Page(0, 0), [1, 2, 3]),
    ],
)
def test_paging(page: Page, items: list[int]) -> None:
    assert page.of([1, 2, 3]) == items


@pytest.mark.parametrize("text", ["0", "-2", "x", "1.0", "2147483648", "١"])
def test_versions_that_are_none(text: str) -> None:
    assert code(reading.parse_version, text) == 42202


@pytest.mark.parametrize(("text", "version"), [("latest", None), ("LATEST", None), ("-1", None), (" 7 ", 7)])
def test_versions_as_confluents_registry_reads_them(text: str, version: int | None) -> None:
    assert reading.parse_version(text) == version


def test_a_changed_config_is_answered_whole() -> None:
    twin = Twin()
    twin.write(settings.set_config(twin.state, "s", {"compatibility": "full"}))
    answer = twin.write(settings.set_config(twin.state, "s", {"normalize": True}))
    assert answer == {"normalize": True, "compatibility": "FULL"}
    assert twin.write(settings.set_config(twin.state, "s", {"compatibility": None})) == {"normalize": True}


def test_modes_of_a_context_are_deleted_though_it_has_none_itself() -> None:
    twin = Twin()
    twin.write(settings.set_mode(twin.state, Rules(), ":.c:s", {"mode": "READONLY"}, force=False))
    assert code(settings.delete_mode, twin.state, Rules(), ":.c:", recursive=False) == 40401
    assert twin.write(settings.delete_mode(twin.state, Rules(), ":.c:", recursive=True)) == {}
    assert twin.state.modes == {}


def test_schemas_are_listed_by_their_aliases_too() -> None:
    twin = Twin()
    twin.register("real", '"int"')
    twin.register("other", '"int"')
    twin.write(settings.set_config(twin.state, "nick", {"alias": "real"}))

    def listed(prefix: str, *, aliases: bool) -> list[tuple[str, list[str] | None]]:
        found = reading.list_schemas(
            twin.state, prefix, Page(), deleted=False, latest_only=False, rule_type="", aliases=aliases
        )
        return [(each["subject"], each.get("aliases")) for each in found]

    assert listed("", aliases=False) == [("other", None), ("real", None)]
    assert listed("", aliases=True) == [("other", None), ("real", ["nick"])]
    assert listed("ni", aliases=True) == [("real", ["nick"])]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"keytype":"SCHEMA","subject":"s","version":1e400,"magic":1}', b"{}"),
        (b"[" * 100_000, b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"id":1e400,"schema":"\\"int\\""}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b"[" * 100_000),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b'{"id":1,"schema":"1","references":[{"name":"n","subject":"s","version":99999999999}]}'),
        (b'{"keytype":"NOOP","magic":0}', b'{"maxIds":{".":1e400}}'),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_read_does_not_keep_the_others_from_being_served(key: bytes, value: bytes) -> None:
    twin = Twin()
    twin.state.apply(key, value)
    assert twin.state == State()
    assert twin.register("s", record("R", ("a", "int")))["id"] == 1


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"properties": {"\ud800": "x"}}},
        {"metadata": {"tags": {"\ud800": ["x"]}}},
        {"ruleSet": {"enableAt": "\ud800"}},
        {"ruleSet": {"domainRules": [{"name": "r", "type": "CEL", "params": {"\ud800": "x"}}]}},
    ],
)
def test_half_a_character_is_refused_wherever_it_stands_in_a_schema(more: dict[str, Any]) -> None:
    assert code(schema_request, {"schema": '"int"', **more}) == 42201


@pytest.mark.parametrize("name", ["alias", "compatibilityGroup"])
def test_half_a_character_is_refused_in_a_config(name: str) -> None:
    assert code(settings.set_config, State(), "s", {name: "\ud800"}) == 42201


def test_half_a_character_in_the_text_of_a_schema_is_refused() -> None:
    assert code(Twin().register, "s", '{"type":"int","doc":"\\ud800"}') == 42201


def test_an_option_that_nobody_defines_is_refused_and_read_where_it_was_stored_before() -> None:
    """protoc refuses it, too. A registry of others may have taken it: what is stored is found, compared and given."""
    twin = Twin()
    unknown = 'syntax = "proto3";\n\nmessage M {\n  string a = 1 [(nobody.knows) = "x"];\n}\n'
    later = 'syntax = "proto3";\n\nmessage M {\n  string a = 1;\n  string b = 2;\n}\n'
    request = schema_request({"schema": unknown, "schemaType": "PROTOBUF"})
    with pytest.raises(HttpError, match=r"the extension nobody\.knows is not defined here or imported") as caught:
        twin.register("s", unknown, schemaType="PROTOBUF")
    assert caught.value.code == 42201
    steps = registering.compatibility_check(twin.registry, "s", request, [], normalize=False, verbose=True)
    assert run_in_place(steps)["is_compatible"] is False
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "IMPORT"}, force=False))
    twin.register("s", unknown, schemaType="PROTOBUF", id=7, version=1)
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "READWRITE"}, force=False))
    assert twin.register("s", unknown, schemaType="PROTOBUF")["id"] == 7
    assert twin.register("s", later, schemaType="PROTOBUF")["version"] == 2
