"""`kafka-configs` for users, clients and IP addresses: their quotas, and the SCRAM credentials of users.

Who is meant is said by one or two types with a name each, in the order in which they stand: `--entity-type users
--entity-name alice --entity-type clients --entity-default`, or shorter `--user alice --client-defaults`.
"""

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.cli.kafka.java_text import double
from headwater.cli.kafka.options import Options, Stop

if TYPE_CHECKING:
    from headwater.client.admin import Admin, QuotaEntity

_KINDS: Final = {"users": "user", "clients": "client-id", "ips": "ip"}  # as requests call them
_SHORT: Final = {"user": "users", "client": "clients", "ip": "ips"}
_CALLED: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


class Named(NamedTuple):
    """`name`: the empty string is the default of the type, None any of it."""

    type: str
    name: str | None

    @property
    def part(self) -> tuple[str, str | None]:
        return _KINDS[self.type], self.name or None


def clients_named_by(options: Options) -> list[Named]:
    """None if something else is meant: topics, brokers."""
    types = options.all("entity-type")
    if any(each in _KINDS for each in types):
        others = [each for each in types if each not in _KINDS]
        if others or len(set(types)) != len(types) or ("ips" in types and len(types) > 1):
            raise Stop(
                1,
                f"Only 'users' and 'clients' may be specified together, each once, not {', '.join(types)}",
            )
        names = [value or "" for name, value in options.order if name in ("entity-name", "entity-default")]
        if len(names) > len(types):
            raise Stop(1, "--entity-name or --entity-default must be specified with each --entity-type, and no oftener")
        return [Named(kind, names[at] if at < len(names) else None) for at, kind in enumerate(types)]
    named = [Named(_SHORT[name], value or "") for name, value in options.order if name in _SHORT]
    named += [Named(f"{short}s", "") for short in _SHORT if f"{short}-defaults" in options]
    if len({each.type for each in named}) != len(named) or (
        len(named) > 1 and any(each.type == "ips" for each in named)
    ):
        raise Stop(1, "A user and a client may be specified together, each once; an IP address stands alone")
    return named


def act_on_clients(options: Options, clients: list[Named], changes: dict[str, str | None]) -> int:
    from headwater.base.errors import KafkaError
    from headwater.base.security.scram import MECHANISMS
    from headwater.cli.kafka.connecting import connected
    from headwater.cli.kafka.scram_users import alter_credentials

    if "alter" not in options:
        with connected(options) as admin:
            _describe(admin, clients)
        return 0
    head = clients[0]
    if any(each.name is None for each in clients):
        raise Stop(1, f"An entity name must be specified with --alter of {', '.join(each.type for each in clients)}")
    credentials = {key: text for key, text in changes.items() if key in MECHANISMS}
    quotas = {key: _number(key, text) for key, text in changes.items() if key not in MECHANISMS}
    if credentials and quotas:
        raise Stop(1, "Cannot alter both quota and SCRAM credential configs simultaneously")
    if credentials and (len(clients) > 1 or head.type != "users" or not head.name):
        raise Stop(1, "SCRAM credentials are those of one user, who must be named")
    with connected(options) as admin:
        if credentials:
            alter_credentials(admin, head.name or "", credentials)
        else:
            try:
                _alter(admin, clients, quotas)
            except KafkaError as error:
                raise Stop(1, f"Error while executing config command: {error.message or error.code.name}") from None
    if head.name:
        sys.stdout.write(f"Completed updating config for {head.type.removesuffix('s')} {head.name}.\n")
    else:
        sys.stdout.write(f"Completed updating default config for {head.type} in the cluster.\n")
    return 0


def _number(key: str, text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise Stop(1, f"Cannot parse quota configuration value for {key}: {text}") from None


def _alter(admin: "Admin", clients: list[Named], quotas: dict[str, float | None]) -> None:
    from headwater.client.outcomes import only

    entity: QuotaEntity = tuple(each.part for each in clients)
    removed = [key for key, value in quotas.items() if value is None]
    if removed:
        found = admin.describe_client_quotas(entity, strict=True)
        known = next(iter(found.values()), {})
        missing = [key for key in removed if key not in known]
        if missing:
            raise Stop(1, f"Invalid config(s): {','.join(missing)}")
    only(admin.alter_client_quotas({entity: quotas}))


def _describe(admin: "Admin", clients: list[Named]) -> None:
    from headwater.base.errors import KafkaError
    from headwater.cli.kafka.scram_users import describe_credentials
    from headwater.client.admin.quotas import ANY_NAME

    wanted = [(_KINDS[each.type], ANY_NAME if each.name is None else each.name or None) for each in clients]
    try:
        found = admin.describe_client_quotas(wanted, strict=True)
    except KafkaError as error:
        raise Stop(1, f"Error while executing config command: {error.message or error.code.name}") from None
    for entity, quotas in found.items():
        who = ", ".join(_called(kind, name) for kind, name in entity)
        what = ", ".join(f"{key}={double(value)}" for key, value in quotas.items())
        sys.stdout.write(f"Quota configs for {who} are {what}\n")
    if [each.type for each in clients] == ["users"] and clients[0].name != "":
        describe_credentials(admin, clients[0].name)


def _called(kind: str, name: str | None) -> str:
    return f"the default {_CALLED[kind]}" if name is None else f"{_CALLED[kind]} '{name}'"
