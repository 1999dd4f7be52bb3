"""Who has quotas, and which: the names, what values are allowed, and how they are kept. Values only; Apache Kafka's
names and messages.

A quota belongs to a user, to a client id, to both, or to an address. None as a name is the default of that type: what
holds for each that has nothing of its own. In the image the defaults have the empty name.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.metadata.image import AddressConfigured, ClientConfigured, ClusterImage, UserConfigured

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1
_CLIENT_KEYS: Final[dict[str, int | None]] = {PRODUCE: _LONG_MAX, FETCH: _LONG_MAX, REQUEST: None, MUTATION: None}
_ADDRESS_KEYS: Final[dict[str, int | None]] = {CONNECTION: _INT_MAX}
"""The largest value of each, which is a whole number then; None: any number."""
_KINDS: Final = {_LONG_MAX: "a LONG", _INT_MAX: "an INT"}
_NEARLY_WHOLE: Final = 1e-6
NAME_CHARACTERS_MAX: Final = 1000


class Entity(NamedTuple):
    """The parts that it has; the empty name is the default of its type."""

    user: str | None = None
    client_id: str | None = None
    address: str | None = None

    @property
    def parts(self) -> dict[str, str | None]:
        """By type, with None for defaults: as requests and answers have it."""
        named = ((USER, self.user), (CLIENT_ID, self.client_id), (IP, self.address))
        return {kind: name or None for kind, name in named if name is not None}

    @property
    def as_met(self) -> "Entity":
        """With its address as connections have it; in ZooKeeper others may have written it in another way."""
        if self.address is None:
            return self
        normal = normal_address(self.address)
        return self if normal is None else Entity(address=normal)

    def config_in(self, image: ClusterImage) -> dict[str, str]:
        if self.address is not None:
            return image.address_configs.get(self.address, {})
        if self.client_id is not None:
            return image.client_configs.get((self.user, self.client_id), {})
        return image.user_configs.get(self.user or "", {})

    def is_known_in(self, image: ClusterImage) -> bool:
        if self.address is not None:
            return self.address in image.address_configs
        if self.client_id is not None:
            return (self.user, self.client_id) in image.client_configs
        return (self.user or "") in image.user_configs

    def configured(self, config: dict[str, str]) -> UserConfigured | ClientConfigured | AddressConfigured:
        if self.address is not None:
            return AddressConfigured(self.address, config)
        if self.client_id is not None:
            return ClientConfigured(self.user, self.client_id, config)
        return UserConfigured(self.user or "", config)


def entity_configured(change: UserConfigured | ClientConfigured | AddressConfigured) -> Entity:
    match change:
        case UserConfigured(user):
            return Entity(user=user)
        case ClientConfigured(user_or_all, client):
            return Entity(user_or_all, client)
        case AddressConfigured(address):
            return Entity(address=address)


def entity_of(parts: Sequence[tuple[str, str | None]]) -> Entity:
    """Raises INVALID_REQUEST in Apache Kafka's words."""
    found: dict[str, str] = {}
    for kind, name in parts:
        if kind in found:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if name is not None and (len(name) > NAME_CHARACTERS_MAX or "\0" in name):
            raise _invalid(f"The name of a {kind} has at most {NAME_CHARACTERS_MAX} characters, and no NUL")
        found[kind] = name or ""
    if not found:
        raise _invalid("Invalid empty client quota entity")
    address = found.get(IP)
    if address is not None:
        if len(found) > 1:
            raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
        address = _checked_address(address)
    return Entity(found.get(USER), found.get(CLIENT_ID), address)


def _checked_address(address: str) -> str:
    """Host names are not looked up: a broker must not wait for that, and connections come from addresses."""
    normal = normal_address(address)
    if normal is None:
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return normal


def normal_address(address: str) -> str | None:
    """As connections have it: IPv4 where it can be, and without a scope, which names an interface of this machine. None
    if it is none.
    """
    if not address:
        return address
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address):
        if parsed.scope_id is not None:
            return None
        return str(parsed.ipv4_mapped or parsed)
    return str(parsed)


def altered(
    entity: Entity, config: Mapping[str, str], operations: Sequence[tuple[str, float | None]]
) -> dict[str, str]:
    """What the entity's config becomes; None takes a quota away. Raises INVALID_REQUEST."""
    becomes = dict(config)
    seen: set[str] = set()
    for key, value in operations:
        if key in seen:
            raise _invalid(f"Duplicate quota key {key} not updating quota for this entity {entity.parts}")
        seen.add(key)
        if value is None:
            if key in _CLIENT_KEYS or key in _ADDRESS_KEYS:  # credentials of a user stand beside them
                becomes.pop(key, None)
        else:
            becomes[key] = _checked(_ADDRESS_KEYS if entity.address is not None else _CLIENT_KEYS, key, value)
    return becomes


def _checked(keys: Mapping[str, int | None], key: str, value: float) -> str:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0.0 or math.isinf(value):
        raise _invalid(f"Quota {key} must be greater than 0")
    most = keys[key]
    if most is None:
        return repr(float(value))
    if value > float(most):  # the largest LONG is no float: the next one stands for it
        raise _invalid(f"Proposed value for {key} is too large for {_KINDS[most]}.")
    whole = round(value)
    if abs(whole - value) > _NEARLY_WHOLE:
        raise _invalid(f"{key} cannot be a fractional value.")
    if not whole:
        raise _invalid(f"Quota {key} must be greater than 0")
    return str(min(whole, most))


def quotas_in(config: Mapping[str, str]) -> dict[str, float]:
    """The quotas of a config, which may hold other things, and things that somebody wrote by hand."""
    found: dict[str, float] = {}
    for key in (*_CLIENT_KEYS, *_ADDRESS_KEYS):
        text = config.get(key)
        if text is not None:
            try:
                value = float(text)
            except ValueError:
                continue
            if value > 0.0 and not math.isinf(value):
                found[key] = value
    return found


def all_quotas(image: ClusterImage) -> Iterator[tuple[Entity, dict[str, float]]]:
    """Of every entity that has any."""
    configs = [(Entity(user=user), config) for user, config in image.user_configs.items()]
    configs += [(Entity(user, client), config) for (user, client), config in image.client_configs.items()]
    configs += [(Entity(address=address).as_met, config) for address, config in image.address_configs.items()]
    for entity, config in configs:
        quotas = quotas_in(config)
        if quotas:
            yield entity, quotas


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
