"""The table against Apache Kafka 4.3's own definitions, kept beside this test as facts."""

from pathlib import Path

import pytest

from headwater.base.config.definition import ConfigType, Definition, format_value
from headwater.base.config.table import BROKER, TOPIC
from headwater.base.config.validators import ConfigValueError

ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "data" / "apache_kafka_4_3.tsv").read_text().splitlines()
    if not line.startswith("#")
]
BROKER_ROWS = {row[1]: row for row in ROWS if row[0] == "B"}
TOPIC_ROWS = {row[1]: row for row in ROWS if row[0] == "T"}

OURS = {
    "metrics.port",
    "metrics.listener",
    "metrics.authentication.method",
    "log.format",
    "controller.quick.failover.enable",
    "sasl.plain.allow.plaintext",
    "sasl.oauthbearer.allowed.urls",
    "super.users",  # Kafka's authorizer reads these two; its brokers do not know them
    "allow.everyone.if.no.acl.found",
    "password.encoder.secret",  # of brokers with ZooKeeper
    "password.encoder.old.secret",
    "password.encoder.keyfactory.algorithm",
    "password.encoder.cipher.algorithm",
    "password.encoder.key.length",
    "password.encoder.iterations",
    "headwater.audit.topic",
    "headwater.schema.registry.url",
    "headwater.schema.registry.timeout.ms",
}
SCHEMAS = {
    f"{whose}.{side}.{what}"
    for whose in ("headwater", "confluent")
    for side in ("key", "value")
    for what in ("schema.validation", "subject.name.strategy")
}
DIFFERENT_DEFAULT = {"log.dir", "node.id"}  # no data in /tmp; and one broker needs no number


def default_text(definition: Definition) -> str:
    text = format_value(definition.default)
    return "<null>" if text is None else text


def test_every_topic_config_of_kafka_is_there_and_none_but_those_for_schemas() -> None:
    assert set(TOPIC) - SCHEMAS == set(TOPIC_ROWS)
    assert all(TOPIC[name].hidden for name in SCHEMAS)


def test_every_public_broker_property_of_kafka_is_known() -> None:
    public = {name for name, row in BROKER_ROWS.items() if row[6] == "false"}
    assert public - set(BROKER) == set()
    assert {name for name, d in BROKER.items() if not d.hidden} - public == OURS


@pytest.mark.parametrize("name", sorted(TOPIC_ROWS))
def test_topic_config_has_kafkas_type_default_and_synonyms(name: str) -> None:
    definition, row = TOPIC[name], TOPIC_ROWS[name]
    assert definition.type.name == row[2]
    assert default_text(definition) == row[3]
    assert ",".join(synonym.name for synonym in definition.synonyms) == row[7].replace("-", "")
    assert definition.hidden == (row[6] == "true")


@pytest.mark.parametrize("name", sorted(set(BROKER_ROWS) & set(BROKER)))
def test_broker_property_has_kafkas_type_default_and_mode(name: str) -> None:
    definition, row = BROKER[name], BROKER_ROWS[name]
    assert definition.type.name == row[2]
    if name not in DIFFERENT_DEFAULT:
        assert default_text(definition) == row[3].replace("<none>", "<null>")
    assert definition.importance == row[5].lower()
    assert definition.mode == row[7]


def bounds(text: str) -> tuple[str, str] | None:
    """The least and the most of `[1,...,9]` or `[0,...]`."""
    if not text.startswith("[") or "..." not in text or text.startswith("[partitionId"):
        return None
    least, _, most = text.split("]")[0].lstrip("[").partition(",...")
    return least, most.lstrip(",")


def used(row: list[str]) -> bool:
    definition = (BROKER if row[0] == "B" else TOPIC).get(row[1])
    return definition is not None and definition.used


@pytest.mark.parametrize("row", [r for r in ROWS if bounds(r[4]) and used(r)], ids=lambda row: f"{row[0]}-{row[1]}")
def test_numbers_beyond_kafkas_bounds_are_refused(row: list[str]) -> None:
    definition = (BROKER if row[0] == "B" else TOPIC)[row[1]]
    least, most = bounds(row[4]) or ("", "")
    definition.parse(least)
    with pytest.raises(ConfigValueError):
        definition.parse(str(int(least) - 1))
    if most:
        definition.parse(most)
        with pytest.raises(ConfigValueError):
            definition.parse(str(int(most) + 1))


def test_every_default_passes_its_own_check() -> None:
    for definition in [*BROKER.values(), *TOPIC.values()]:
        text = format_value(definition.default)
        if text is not None and definition.name not in ("advertised.listeners",):
            assert definition.parse(text) == definition.default, definition.name


def test_synonyms_exist_and_documentation_is_one_line() -> None:
    for definition in [*BROKER.values(), *TOPIC.values()]:
        assert all(synonym.name in BROKER for synonym in definition.synonyms)
        assert definition.doc.endswith(".")
        assert "\n" not in definition.doc


def test_passwords_and_addresses_with_a_login_are_sensitive_and_nothing_else() -> None:
    assert BROKER["ssl.key.password"].is_sensitive
    others = {d.name for d in BROKER.values() if d.is_sensitive and d.type is not ConfigType.PASSWORD}
    assert others == {"headwater.schema.registry.url", "confluent.schema.registry.url"}
    assert all(d.is_sensitive for d in BROKER.values() if d.type is ConfigType.PASSWORD)
