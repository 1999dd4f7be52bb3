"""Schemas that come with the ids and versions that they have in another registry."""

from typing import Any

import pytest

from headwater.registry.decisions import settings
from headwater.registry.decisions.steps import Rules
from unit.registry.twin import Twin, code

LOOSE = '{"type":"object","required":["b","a"],"properties":{"b":{"type":"string"},"a":{"type":"string"}}}'


def importing(subject: str | None) -> Twin:
    twin = Twin()
    twin.write(settings.set_mode(twin.state, Rules(), subject, {"mode": "IMPORT"}, force=False))
    return twin


@pytest.mark.parametrize("by_config", [False, True])
def test_an_import_stores_the_text_and_references_as_they_came(by_config: bool) -> None:
    """A copy of a registry had other texts, and other fingerprints, than the registry that it was a copy of."""
    twin = importing("s")
    twin.register("x", '{"type":"string"}', schemaType="JSON")
    twin.register("y", '{"type":"number"}', schemaType="JSON")
    twin.write(settings.set_config(twin.state, "s", {"normalize": by_config}))
    references = [{"name": name, "subject": name, "version": 1} for name in ("y", "x")]
    twin.register("s", LOOSE, normalize=not by_config, schemaType="JSON", id=7, version=3, references=references)
    stored = twin.state.version("s", 3)
    assert stored is not None
    assert stored.content.text == LOOSE
    assert [each.name for each in stored.content.references] == ["y", "x"]


@pytest.mark.parametrize("mode", ["READWRITE", "READONLY", "IMPORT"])
def test_a_version_that_is_there_may_be_sent_again_with_its_id_and_number(mode: str) -> None:
    """It was 42205: a tool that copies schemas could not be run twice."""
    twin = importing("s")
    made = twin.register("s", '"string"', id=7, version=1)
    again = twin.register("s", '"string"', id=7, version=4)  # the same one under two numbers
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": mode}, force=True))
    written = len(twin.log)
    assert twin.register("s", ' {"type": "string"}', id=7, version=1) == made
    assert twin.register("s", '"string"', id=7, version=4) == again
    assert len(twin.log) == written


@pytest.mark.parametrize(
    ("schema", "more"),
    [
        ('"string"', {"id": 8, "version": 1}),
        ('"string"', {"id": 7, "version": 2}),
        ('"int"', {"id": 7, "version": 1}),
        ('"string"', {"id": 7, "version": 1, "metadata": {"properties": {"a": "b"}}}),
    ],
)
def test_another_one_with_an_id_and_a_number_is_an_import(schema: str, more: dict[str, Any]) -> None:
    twin = importing("s")
    twin.register("s", '"string"', id=7, version=1)
    twin.write(settings.set_mode(twin.state, Rules(), "s", {"mode": "READWRITE"}, force=True))
    assert code(twin.register, "s", schema, **more) == 42205
