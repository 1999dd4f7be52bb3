"""`kafka-configs`: the dynamic configs of topics and brokers, with where each value comes from.

Of users, SCRAM credentials are given and taken away (`--add-config 'SCRAM-SHA-512=[iterations=8192,password=secret]'`);
of users, clients and IP addresses, quotas (`client_quotas.py`). Groups and client metrics have none here, which is
said.
"""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from headwater.base.errors import ErrorCode, KafkaError
from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Stop, Usage, run, run_with

if TYPE_CHECKING:
    from headwater.client.admin import Admin
    from headwater.client.types import ConfigEntry

ABOUT: Final = (
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics"
)
_TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("bootstrap-controller", "Not here: the brokers are asked.", "controller"),
    Option("describe", "List configs for the given entity."),
    Option("alter", "Alter the configuration for the entity."),
    Option("all", "List all configs for the given entity, also what is not dynamic."),
    Option("add-config", "Key Value pairs of configs to add: 'k1=v1,k2=[v1,v2,v2],k3=v3'.", "configs"),
    Option("add-config-file", "Path to a properties file with configs to add.", "file"),
    Option("delete-config", "config keys to remove 'k1,k2'.", "keys"),
    Option("entity-type", f"Type of entity ({'/'.join(_TYPES)}).", "type"),
    Option("entity-name", "Name of entity (topic name/client id/user principal name/broker id/ip).", "name"),
    Option(
        "entity-default", "Default entity name for clients/users/brokers/ips (applies to corresponding entity type)."
    ),
    Option("topic", "The topic's name.", "topic"),
    Option("broker", "The broker's ID.", "broker"),
    Option("broker-defaults", "The config defaults for all brokers."),
    Option("user", "The user's principal name.", "user"),
    Option("user-defaults", "The config defaults for all users."),
    Option("client", "The client's ID.", "client"),
    Option("client-defaults", "The config defaults for all clients."),
    Option("ip", "The IP address.", "ip"),
    Option("ip-defaults", "The config defaults for all IPs."),
    *(Option(name, "Not here.", name) for name in ("group", "client-metrics", "broker-logger")),
)
_SHORT: Final = {"topic": "topics", "broker": "brokers", "client": "clients", "user": "users", "ip": "ips"}
_SHORT_MORE: Final = {"group": "groups", "client-metrics": "client-metrics", "broker-logger": "broker-loggers"}
_RESOURCES: Final = {"topics": 2, "brokers": 4}
_SOURCES: Final = {  # as Java's client calls them
    "unknown": "UNKNOWN",
    "topic": "DYNAMIC_TOPIC_CONFIG",
    "dynamic-broker": "DYNAMIC_BROKER_CONFIG",
    "dynamic-default": "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "static-broker": "STATIC_BROKER_CONFIG",
    "default": "DEFAULT_CONFIG",
    "dynamic-logger": "DYNAMIC_BROKER_LOGGER_CONFIG",
    "client-metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "group": "DYNAMIC_GROUP_CONFIG",
}


class Entity(NamedTuple):
    """`name` is None for all of its type, and empty for the defaults of brokers."""

    type: str
    name: str | None

    def __str__(self) -> str:
        if self.name == "":
            return f"default config for {self.type} in the cluster"
        return f"config for {self.type.removesuffix('s')} {self.name}"


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected

    if ("describe" in options) == ("alter" in options):
        raise Usage("Command must include exactly one action: --describe, --alter")
    options.refuse_together("describe", "add-config", "add-config-file", "delete-config")
    if not any(name in options for name in ("bootstrap-server", "broker-list", "zookeeper")):
        raise Stop(1, "Either --bootstrap-server or --bootstrap-controller must be specified.")
    from headwater.cli.kafka.client_quotas import act_on_clients, clients_named_by

    _check_entities(options)
    clients = clients_named_by(options)
    if clients:
        return act_on_clients(options, clients, _changes(options) if "alter" in options else {})
    entity = _entity(options)
    changes = _changes(options) if "alter" in options else {}
    try:
        with connected(options) as admin:
            if "alter" in options:
                _alter(admin, entity, changes)
            else:
                _describe(admin, entity, everything="all" in options)
    except KafkaError as error:
        from headwater.cli.kafka.exits import exception_name
        from headwater.client.errors import BootstrapFailed

        if isinstance(error, BootstrapFailed):
            raise
        typed = " ".join(sys.argv[1:])
        name = f"org.apache.kafka.common.errors.{exception_name(error.code)}"
        raise Stop(
            1, f"Error while executing config command with args '{typed}'\n{name}: {error.message or error.code.name}"
        ) from None
    return 0


def _check_entities(options: Options) -> None:
    """Who is meant is said in one way, and of topics and brokers one is: another one would be passed over."""
    flags = [name for name, _ in options.order if name in {**_SHORT, **_SHORT_MORE} or name.endswith("-defaults")]
    types = options.all("entity-type")
    names = [name for name, _ in options.order if name in ("entity-name", "entity-default")]
    if flags and (types or names):
        raise Stop(1, "--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    kinds = types or [_SHORT.get(name, _SHORT_MORE.get(name, "")) or name.replace("-defaults", "s") for name in flags]
    if len(kinds) > 1 and not {*kinds} <= {"users", "clients"}:
        raise Stop(1, "Only 'users' and 'clients' entity types may be specified together, and each once")
    if len(names) > max(1, len(types)):
        raise Stop(1, "An entity name must be specified for every entity type, and no oftener")


def _entity(options: Options) -> Entity:
    short = {**_SHORT, **_SHORT_MORE}
    kind = options.get("entity-type") or next((short[name] for name in short if name in options), None)
    if kind is None and "broker-defaults" in options:
        kind = "brokers"
    if kind is None:
        raise Stop(1, "At least one entity type must be specified")
    if kind not in _TYPES:
        raise Stop(
            1,
            f"Invalid entity type {kind}, the entity type must be one of {', '.join(_TYPES)} with a --bootstrap-server "
            "or --bootstrap-controller argument",
        )
    if kind not in _RESOURCES:
        raise Stop(
            1, f"There are no configs of {kind} here yet: only topics, brokers, users, clients and ips have some."
        )
    name = options.get("entity-name") or next((options.get(each) for each in short if each in options), None)
    if "entity-default" in options or "broker-defaults" in options:
        name = ""
    if kind == "topics" and name == "":
        action = "alter" if "alter" in options else "describe"
        raise Stop(1, f"--entity-default must not be specified with --{action} of topics")
    if kind == "brokers" and name and not name.isdigit():
        raise Stop(1, f"The entity name for brokers must be a valid integer broker id, but it is: {name}")
    if name is None and "alter" in options:
        raise Stop(1, f"An entity name must be specified with --alter of {kind}")
    return Entity(kind, name)


def _changes(options: Options) -> dict[str, str | None]:
    from headwater.cli.kafka.connecting import read_properties

    if not any(name in options for name in ("add-config", "add-config-file", "delete-config")):
        raise Stop(
            1, "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    changes: dict[str, str | None] = {}
    if "add-config-file" in options:
        changes.update(read_properties(options.get("add-config-file") or ""))
    for text in options.all("add-config"):
        changes.update(parse_configs(text))
    for text in options.all("delete-config"):
        changes.update(dict.fromkeys(key.strip() for key in text.split(",")))
    return changes


def parse_configs(text: str) -> dict[str, str]:
    """`a=1,b=[x,y]` -> {'a': '1', 'b': 'x,y'}: commas within brackets belong to the value."""
    configs = {}
    for pair in re.split(r",(?![^\[\]]*\])", text):
        key, equals, value = pair.partition("=")
        if not equals:
            raise Stop(
                1,
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  '
                '"key=[val1,val2]" to group values which contain commas.',
            )
        value = value.strip()
        configs[key.strip()] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return configs


def _alter(admin: "Admin", entity: Entity, changes: dict[str, str | None]) -> None:
    from headwater.client.outcomes import only
    from headwater.client.types import ConfigResource, ResourceType

    assert entity.name is not None
    only(admin.alter_configs({ConfigResource(ResourceType(_RESOURCES[entity.type]), entity.name): changes}))
    sys.stdout.write(f"Completed updating {entity}.\n")


def _describe(admin: "Admin", entity: Entity, *, everything: bool) -> None:
    topics = {topic.name for topic in admin.list_topics(internal=True)}
    brokers = {str(broker) for broker in admin.session.view.brokers}
    names = [entity.name] if entity.name is not None else []
    if entity.name is None:
        names = sorted(topics) if entity.type == "topics" else [*sorted(brokers), ""]
    for name in names:
        one = entity.type.removesuffix("s")
        if name and name not in (topics if entity.type == "topics" else brokers):
            sys.stdout.write(f"The {one} '{name}' doesn't exist and doesn't have dynamic config.\n")
            continue
        if name == "":
            sys.stdout.write(f"Default configs for {entity.type} in the cluster are:\n")
        else:
            sys.stdout.write(f"{'All' if everything else 'Dynamic'} configs for {one} {name} are:\n")
        sys.stdout.writelines(_line(each) for each in _entries(admin, entity.type, name, everything=everything))


def _entries(admin: "Admin", kind: str, name: str, *, everything: bool) -> "list[ConfigEntry]":
    from headwater.client.outcomes import only
    from headwater.client.types import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType(_RESOURCES[kind]), name)
    try:
        entries = only(admin.describe_configs([resource], synonyms=True))
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []
    own = "topic" if kind == "topics" else "dynamic-broker" if name else "dynamic-default"
    return [each for each in entries if everything or each.source == own]


def _line(entry: "ConfigEntry") -> str:
    synonyms = ", ".join(f"{_SOURCES[each.source]}:{each.name}={_null(each.value)}" for each in entry.synonyms)
    sensitive = str(entry.sensitive).lower()
    return f"  {entry.name}={_null(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}\n"


def _null(value: str | None) -> str:
    return "null" if value is None else value
