"""Tags inside schemas, as requests add, change and ask for them."""

import json
from typing import Any

import pytest

from headwater.registry.decisions import reading, tagging
from headwater.registry.decisions.steps import run_in_place
from headwater.registry.decisions.tag_changes import modification, tag_change
from unit.registry.twin import Twin, code, record


def tags(path: str, *names: str, kind: str = "sr_field") -> dict[str, Any]:
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(names)}


def test_tags_of_a_request_go_into_the_schema_and_make_a_version() -> None:
    twin, text = Twin(), record("R", ("f", "int"))
    first = twin.register("s", text)
    second = twin.register("s", text, schemaTagsToAdd=[tags("R.f", "PII")])
    assert (second["id"], second["version"]) == (first["id"] + 1, 2)
    assert json.loads(second["schema"])["fields"] == [{"name": "f", "type": "int", "confluent:tags": ["PII"]}]
    assert second["metadata"] == {"properties": {"confluent:version": "2"}}
    assert twin.register("s", text, schemaTagsToAdd=[tags("R.f", "PII")]) == second  # again: nothing is written
    third = twin.register("s", second["schema"], schemaTagsToRemove=[tags("R.f", "PII")])
    assert (third["version"], third["schema"]) == (3, first["schema"])
    assert twin.state.subjects == twin.compacted().subjects


def test_tags_of_the_version_before_are_propagated_on_request() -> None:
    twin = Twin()
    twin.register("s", record("R", ("f", "int")), schemaTagsToAdd=[tags("R", "all", kind="sr_record")])
    later = record("R", ("f", "long"))
    assert "confluent:tags" not in twin.register("other", later, propagateSchemaTags=True)["schema"]
    assert json.loads(twin.register("s", later, propagateSchemaTags=True)["schema"])["confluent:tags"] == ["all"]


@pytest.mark.parametrize(
    "more",
    [
        {"schemaTagsToAdd": [tags("R.g", "PII")]},
        {"schemaTagsToAdd": [tags("R.f", "PII", kind="field")]},
        {"schemaTagsToAdd": {"R.f": ["PII"]}},
        {"schemaTagsToAdd": [{"schemaEntity": "R.f", "tags": ["PII"]}]},
        {"schemaTagsToRemove": [{**tags("R.f"), "tags": [1]}]},
        {"schemaTagsToRemove": ["R.f"]},
    ],
)
def test_tags_that_cannot_be_set_are_an_invalid_schema(more: dict[str, Any]) -> None:
    twin = Twin()
    assert code(twin.register, "s", record("R", ("f", "int")), **more) == 42201
    assert not twin.log


def change_tags(twin: Twin, subject: str, version: int | None, document: Any) -> Any:
    found = reading.one_version(twin.state, subject, version)
    return twin.write(run_in_place(modification(twin.registry, subject, found, tag_change(document))))


def test_tags_metadata_and_rules_of_a_version_are_changed_as_the_next_one() -> None:
    twin = Twin()
    rules = [{"name": "a", "type": "CEL", "kind": "CONDITION"}, {"name": "b", "type": "CEL", "kind": "CONDITION"}]
    twin.register("s", record("R", ("f", "int")), ruleSet={"domainRules": rules}, metadata={"properties": {"o": "us"}})
    second = change_tags(twin, "s", None, {"tagsToAdd": [tags("R.f", "PII")], "rulesToRemove": ["a"]})
    assert second["version"] == 2
    assert second["metadata"] == {"properties": {"confluent:version": "2", "o": "us"}}
    assert [each["name"] for each in second["ruleSet"]["domainRules"]] == ["b"]
    merged = {"domainRules": [{"name": "c", "type": "CEL", "kind": "CONDITION"}]}
    third = change_tags(
        twin, "s", 2, {"newVersion": 3, "rulesToMerge": merged, "metadata": {"properties": {"o": "me"}}}
    )
    assert [each["name"] for each in third["ruleSet"]["domainRules"]] == ["b", "c"]
    assert third["metadata"] == {"properties": {"confluent:version": "3", "o": "me"}}
    assert "PII" in third["schema"]
    assert code(change_tags, twin, "s", 3, {"newVersion": 7}) == 42201  # not the next one
    assert code(change_tags, twin, "s", 3, {"ruleSet": {}, "rulesToMerge": merged}) == 42210
    assert code(change_tags, twin, "s", 3, {"tagsToAdd": [tags("R.g", "PII")]}) == 42201


def test_tags_are_found() -> None:
    twin = Twin()
    twin.register("s", record("R", ("f", "int"), ("g", "int")), schemaTagsToAdd=[tags("R.f", "a"), tags("R.g", "b")])
    version = reading.one_version(twin.state, "s", None)

    def found(*wanted: str) -> list[str]:
        steps = tagging.schema_tags(twin.state, twin.registry.parser, version, wanted)
        return [each["schemaEntity"]["entityPath"] for each in run_in_place(steps)]

    assert found("*") == found("a,b") == found("a", "b") == ["R.f", "R.g"]
    assert found("b") == ["R.g"]
    assert found("c") == []


def test_a_request_without_a_schema_is_about_the_version_before() -> None:
    twin = Twin()
    assert code(twin.register, "s", "", metadata={"properties": {"o": "us"}}) == 42201
    first = twin.register("s", '"int"')
    second = twin.register("s", "", metadata={"properties": {"o": "us"}})
    assert (second["version"], second["schema"]) == (2, first["schema"])
    assert second["metadata"] == {"properties": {"o": "us"}}
