"""The settings of admin clients, beyond those that every client takes."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast
from headwater.client.reactor.network import Network
from headwater.client.session import SessionSettings
from headwater.client.settings.common import COMMON, OLD_NAMES, network, session_settings
from headwater.client.settings.parsing import Settings, read_settings, row, table_of

ADMIN: Final = {
    **COMMON,
    **table_of(
        row(
            "default.api.timeout.ms",
            ConfigType.INT,
            60_000,
            "How long a call may take, with all its attempts. A cluster that was never reached is an error at once.",
            AtLeast(1),
        ),
        row("retries", ConfigType.INT, 2147483647, "Without effect: time is the limit.", AtLeast(0), used=False),
    ),
}


class AdminSettings(NamedTuple):
    values: Settings
    session: SessionSettings

    def network(self) -> Network:
        return network(self.values)


def read_admin_settings(given: Mapping[str, object] | None, keywords: Mapping[str, object]) -> AdminSettings:
    values = read_settings(ADMIN, given, keywords, old_names=OLD_NAMES)
    return AdminSettings(values, session_settings(values, values.number("default.api.timeout.ms")))
