"""What `headwater consume` and `kafka-console-consumer` show of records that name a schema of a registry."""

import sys
from typing import TYPE_CHECKING, Final

from headwater.client.schema_registry import SchemaRegistryClient
from headwater.client.schema_registry.readable import RegisteredRecords

if TYPE_CHECKING:
    from headwater.cli.settings import FoundDoor

_QUIET_PATIENCE_S: Final = 10.0


def registered_records(
    door: "FoundDoor", *, keys: bool = True, values: bool = True, is_required: bool
) -> RegisteredRecords:
    """By the registry behind a door, with the login that is meant for it."""
    from headwater.cli.registry_calls import RegistryCalls, RegistryTransport

    calls = RegistryCalls(door.url, door.security, None if is_required else _QUIET_PATIENCE_S)
    client = SchemaRegistryClient({}, transport=RegistryTransport(calls))
    return RegisteredRecords(client, keys=keys, values=values, is_required=is_required, warn=_warn)


def _warn(what: str) -> None:
    sys.stderr.write(f"warning: {what}\n")
