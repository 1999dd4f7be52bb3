"""Changes to the configs of topics, brokers and groups: what AlterConfigs and IncrementalAlterConfigs have in common.

Each resource succeeds or fails on its own. A resource that stands in a request twice is refused both times, because
nobody can say which of the two was meant to be the last.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.config.alter import ConfigOperation, altered_broker_configs, altered_topic_configs
from headwater.base.config.listener_config import is_listener_secret
from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.names import validate_topic_name
from headwater.broker.requested_change import RequestedChange
from headwater.metadata.image import BrokerConfigured, Change, GroupConfigured, TopicConfigured

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
GROUP_CONFIGS_MAX: Final = 10_000  # groups with configs of their own, whether they exist or not


class Alteration(NamedTuple):
    """What one resource is to become. `operations` gets its dynamic config as it is; it may raise KafkaError."""

    resource_type: int
    resource_name: str
    operations: Callable[[dict[str, str]], list[ConfigOperation]]


class Alterations(RequestedChange):
    """The two APIs have the same fields in messages of their own."""

    def __init__(
        self,
        broker: "Broker",
        alterations: Sequence[Alteration],
        *,
        response: Callable[..., object],
        resource_response: Callable[..., object],
        validate_only: bool,
    ) -> None:
        super().__init__(broker)
        self._alterations = alterations
        self._response = response
        self._resource_response = resource_response
        self._validate_only = validate_only
        self._outcomes: list[KafkaError | None] = []

    def plan(self) -> Sequence[Change]:
        changes: list[Change] = []
        self._outcomes = []
        groups: set[str] = set()  # that get configs by this request
        counts = Counter((a.resource_type, a.resource_name) for a in self._alterations)
        for alteration in self._alterations:
            try:
                if counts[alteration.resource_type, alteration.resource_name] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                change = _plan_one(self._broker, alteration, groups)
            except KafkaError as problem:
                self._outcomes.append(problem)
            else:
                self._outcomes.append(None)
                if change is not None:
                    changes.append(change)
        return [] if self._validate_only else changes

    def done(self, error: KafkaError | None) -> None:
        answers = [
            self._answer(alteration, outcome or error)
            for alteration, outcome in zip(self._alterations, self._outcomes, strict=True)
        ]
        self.deferred.complete(self._response(responses=answers))

    def _answer(self, alteration: Alteration, outcome: KafkaError | None) -> object:
        return self._resource_response(
            error_code=int(outcome.code) if outcome else 0,
            error_message=outcome.message if outcome else None,
            resource_type=alteration.resource_type,
            resource_name=alteration.resource_name,
        )


def _plan_one(broker: "Broker", alteration: Alteration, groups: set[str]) -> Change | None:
    """None if there is nothing to change. `groups` are those that got configs before in the same request; it may add
    one.
    """
    name = alteration.resource_name
    if alteration.resource_type == TOPIC_RESOURCE:
        return _plan_topic(broker, name, alteration)
    if alteration.resource_type == BROKER_RESOURCE:
        _check_broker_name(broker, name)
        return BrokerConfigured(name, _altered_broker(broker, name, alteration))
    if alteration.resource_type == GROUP_RESOURCE:
        return _plan_group(broker, name, alteration, groups)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {alteration.resource_type}")


def _altered_broker(broker: "Broker", name: str, alteration: Alteration) -> dict[str, str]:
    """Only the broker itself can tell whether its key stores can be read."""
    current = broker.image.broker_configs.get(name, {})
    operations = alteration.operations(current)
    altered = altered_broker_configs(
        broker.config, current, operations, one_broker=name != "", random_bytes=broker.random.bytes
    )
    if name == str(broker.broker_id):
        candidate = broker.config.with_dynamic(broker.image.broker_configs.get("", {}), altered)
        changed = [each for each in altered if is_listener_secret(each) and altered[each] != current.get(each)]
        lost = [each for each in changed if each not in candidate.dynamic_broker]
        if lost:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"What these were encrypted to cannot be decrypted again: [{', '.join(lost)}]",
            )
        try:
            broker.check_config(candidate)
        except UserError as problem:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid value for broker {name}: {problem}") from None
    return altered


def problem_with_own(broker: "Broker", alterations: Sequence[Alteration]) -> tuple[int, KafkaError] | None:
    """With what another broker, the controller, is about to be asked to change of this one:
    where it stands, and why.
    """
    own = (BROKER_RESOURCE, str(broker.broker_id))
    found = [at for at, each in enumerate(alterations) if (each.resource_type, each.resource_name) == own]
    if len(found) != 1:  # the controller refuses one that stands there twice
        return None
    try:
        _altered_broker(broker, own[1], alterations[found[0]])
    except KafkaError as problem:
        return found[0], problem
    return None


def encode_passwords_again(broker: "Broker") -> None:
    """Passwords of all brokers that only `password.encoder.old.secret` can read. By who may commit, when it begins."""
    encoder = broker.config.password_encoder
    if encoder is None or not broker.config.string("password.encoder.old.secret"):
        return

    def encoded(config: dict[str, str]) -> dict[str, str]:
        old = [name for name in config if is_listener_secret(name) and encoder.is_by_the_old_secret(config[name])]
        return config | {name: encoder.encode(encoder.decode(config[name]), broker.random.bytes) for name in old}

    def plan() -> Sequence[Change]:
        after = {name: encoded(config) for name, config in broker.image.broker_configs.items()}
        return [
            BrokerConfigured(name, config)
            for name, config in after.items()
            if config != broker.image.broker_configs[name]
        ]

    def done(problem: KafkaError | None) -> None:
        if problem is not None:
            logger.error("event=passwords-not-encoded-again reason=%r", problem.message)

    broker.changes.submit(plan, done)


def _plan_topic(broker: "Broker", name: str, alteration: Alteration) -> Change:
    if name == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(name)
    if name not in broker.image.ids_by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    topic = broker.image.topic(name)
    return TopicConfigured(topic.topic_id, altered_topic_configs(topic.config, alteration.operations(topic.config)))


def _plan_group(broker: "Broker", name: str, alteration: Alteration, groups: set[str]) -> Change | None:
    from headwater.base.config.group import altered_group_configs  # rare; not at start-up

    if name == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    known = broker.image.group_configs
    current = known.get(name, {})
    config = altered_group_configs(broker.config, current, alteration.operations(current))
    if name not in known:
        if not config:
            return None
        if len(known) + len(groups) >= GROUP_CONFIGS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{GROUP_CONFIGS_MAX} groups have configs of their own already."
            )
        groups.add(name)
    return GroupConfigured(name, config)


def _check_broker_name(broker: "Broker", name: str) -> None:
    if name in ("", str(broker.broker_id)):
        return
    if not name.isascii() or not name.lstrip("-").isdigit():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if broker.peers is not None:  # the controller answers for all
        if name in {str(each) for each in broker.image.brokers}:
            return
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.broker_id}, but received {name}"
    )
