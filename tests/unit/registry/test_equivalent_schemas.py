"""A schema that is registered already, in another form: with its references written out, or without the version that the
registry has put into its metadata.
"""

import json
from typing import Any

from headwater.registry.decisions import registering, settings
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.steps import run_in_place
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
