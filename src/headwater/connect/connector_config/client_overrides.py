"""A connector's `producer.override.*`, `consumer.override.*` and `admin.override.*`, checked before anything starts: by
the worker's policy, by the settings that clients have, and whether a login can come of them and of the worker's own.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from headwater.base.errors import UserError
from headwater.client.consumer.consumer_settings import CONSUMER
from headwater.client.settings.admin import ADMIN
from headwater.client.settings.common import OLD_NAMES
from headwater.client.settings.parsing import Settings, read_settings
from headwater.client.settings.producer import PRODUCER
from headwater.client.settings.security import credentials_of
from headwater.connect.config.definition import ConfigValue, own_config
from headwater.connect.config.keys import LOW, text
from headwater.connect.config.worker import policy_of, refused_overrides

_TABLES: Final = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
_CREDENTIALS: Final = ("sasl.jaas.config", "sasl.username", "sasl.password", "sasl.mechanism", "security.protocol")


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


def check_logins(found: Mapping[str, ConfigValue], settings_of: Callable[[str], Mapping[str, str]]) -> None:
    """Where overrides are well each for itself: what is wrong with them together, and with the settings of the worker
    that they stand beside. `settings_of`: all of a client's, as its tasks will have them. A login whose tokens are
    fetched is the task's to try: what it needs may be where the task runs.
    """
    for client, table in _TABLES.items():
        prefix = f"{client}.override."
        override = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
        if not override or any(each.errors for each in override.values()):
            continue
        try:
            settings = read_settings(table, settings_of(client), {}, old_names=OLD_NAMES)
        except UserError:
            continue  # the worker's own are wrong, which is not this connector's matter
        by_name = {OLD_NAMES.get(name, name): value for name, value in override.items()}
        for name, wrong in _wrong_login(by_name, settings).items():
            by_name[name].errors.append(f"{by_name[name].key.name}: {wrong}")


def _wrong_login(override: Collection[str], settings: Settings) -> dict[str, str]:
    """By the overrides that are to blame."""
    protocol = settings.text("security.protocol")
    if not protocol.startswith("SASL_"):
        idle = sorted(name for name in settings.given if name.startswith("sasl."))
        own = [name for name in idle if name in override]
        if own:
            return dict.fromkeys(own, f"There is no login where security.protocol is {protocol}; set SASL_SSL")
        is_own = bool(idle) and "security.protocol" in override
        return (
            {"security.protocol": f"There is no login with {protocol}, and the worker has {idle[0]}"} if is_own else {}
        )
    if settings.text("sasl.mechanism").upper() == "OAUTHBEARER":
        return {}
    try:
        credentials_of(settings)
    except UserError as error:
        blamed = next((name for name in _CREDENTIALS if name in override), None)
        return {} if blamed is None else {blamed: str(error)}
    return {}
