"""A connector's `producer.override.*`, `consumer.override.*` and `admin.override.*`, checked before anything starts: by
the worker's policy, and by the settings that clients have.
"""

from collections.abc import Collection, Mapping
from typing import Final

from headwater.base.errors import UserError
from headwater.client.consumer.consumer_settings import CONSUMER
from headwater.client.settings.admin import ADMIN
from headwater.client.settings.common import OLD_NAMES
from headwater.client.settings.parsing import read_settings
from headwater.client.settings.producer import PRODUCER
from headwater.connect.config.definition import ConfigValue, own_config
from headwater.connect.config.keys import LOW, text
from headwater.connect.config.worker import policy_of, refused_overrides

_TABLES: Final = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}


def checked_overrides(policy: str, allowed: Collection[str], props: Mapping[str, str]) -> dict[str, ConfigValue]:
    """By their names in the connector's config."""
    made: dict[str, ConfigValue] = {}
    for client, table in _TABLES.items():
        prefix = f"{client}.override."
        override = own_config(prefix, props)
        refused = refused_overrides(policy, override, allowed)
        for name, value in override.items():
            found = ConfigValue(text(prefix + name, None, LOW, f"A setting of the connector's {client}."), value)
            if name in refused:
                found.errors.append(
                    f"The '{policy_of(policy)}' policy does not allow '{name}' to be overridden in the connector configuration."
                )
            else:
                try:
                    read_settings(table, {name: value}, {}, old_names=OLD_NAMES)
                except UserError as error:
                    found.errors.append(f"{prefix}{name}: {error}")
            made[prefix + name] = found
    return made
