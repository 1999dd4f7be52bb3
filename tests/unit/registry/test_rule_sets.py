"""Which rules of a data contract are stored. They are Confluent's conditions; nobody here carries rules out."""

from typing import Any

import pytest

from headwater.registry.decisions import settings
from headwater.registry.decisions.documents import canonical_rule_set
from unit.registry.twin import Twin, code


def rule(**more: Any) -> dict[str, Any]:
    return {"name": "r", "type": "CEL", **more}


@pytest.mark.parametrize(
    "rules",
    [
        {"domainRules": "x"},
        {"domainRules": ["x"]},
        {"domainRules": [{"type": "CEL"}]},
        {"domainRules": [rule(name="1st")]},
        {"domainRules": [rule(name="a b")]},
        {"domainRules": [rule(name="a" * 257)]},
        {"domainRules": [rule(type=None)]},
        {"domainRules": [rule(type=5)]},
        {"domainRules": [rule(kind="WISH")]},
        {"domainRules": [rule(mode="UPGRADE")]},
        {"encodingRules": [rule(mode="UPDOWN")]},
        {"migrationRules": [rule(mode="WRITE")]},
        {"migrationRules": [rule()]},  # WRITEREAD, if none is given
        {"domainRules": [rule(), rule()]},
        {"domainRules": [rule()], "migrationRules": [rule(mode="UPGRADE")]},
        {"domainRules": [rule(mode="WRITE", onFailure="DLQ,ERROR")]},
    ],
)
def test_rules_that_are_refused(rules: dict[str, Any]) -> None:
    twin = Twin()
    assert code(twin.register, "s", '"int"', ruleSet=rules) == 42210
    assert twin.log == []


def test_what_is_not_said_is_a_transformation_at_writing_and_reading() -> None:
    given = {"domainRules": [rule(name="_a-1", onFailure="DLQ,ERROR", params={"b": "2", "a": "1"})]}
    expected = {"kind": "TRANSFORM", "mode": "WRITEREAD", "params": {"a": "1", "b": "2"}, "disabled": False}
    canonical = canonical_rule_set(given)
    assert canonical == {"domainRules": [{**given["domainRules"][0], **expected}]}


def test_one_name_may_stand_once_among_all_rules_and_in_any_case_of_its_words() -> None:
    found = canonical_rule_set(
        {"domainRules": [rule(mode="write", kind="condition")], "migrationRules": [rule(name="up", mode="upgrade")]}
    )
    assert found is not None
    assert [each["mode"] for name in found for each in found[name]] == ["UPGRADE", "WRITE"]


def test_metadata_and_rules_that_are_empty_are_not_inherited() -> None:
    """Nobody could get rid of them: an empty ruleSet was as good as none, and those before came back."""
    twin, rules, owner = Twin(), {"domainRules": [rule()]}, {"properties": {"owner": "me"}}
    first = twin.register("s", '"int"', ruleSet=rules, metadata=owner)
    assert twin.register("s", '"int"') == first
    second = twin.register("s", '"int"', ruleSet={}, metadata={"properties": {}})
    assert (second["version"], second["id"]) == (2, 2)
    assert "ruleSet" not in second
    assert "metadata" not in second
    third = twin.register("s", '"int"', ruleSet=rules, metadata={})
    assert (third["version"], third["ruleSet"], "metadata" in third) == (3, first["ruleSet"], False)
    assert twin.register("s", '"int"', metadata={}, ruleSet={})["version"] == 2
    assert twin.compacted().versions("s") == twin.state.versions("s")
    twin.write(settings.set_config(twin.state, "s", {"defaultMetadata": owner}))
    assert twin.register("s", '"long"', metadata={}, ruleSet={})["metadata"] == owner


def test_each_name_is_looked_up_among_the_others_and_not_compared_with_all() -> None:
    """A thousand rules of each kind held up everybody else."""
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    canonical_rule_set({"domainRules": [rule(name=Name(f"r{at}")) for at in range(300)]})
    assert compared < 3_000
