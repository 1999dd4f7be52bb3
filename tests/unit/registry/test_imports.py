"""Schemas that come with the ids and versions that they have in another registry."""

import pytest

from headwater.registry.decisions import settings
from headwater.registry.decisions.steps import Rules
from unit.registry.twin import Twin

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
