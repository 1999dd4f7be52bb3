"""MongoSink: records as documents. At least once; with an id that the record decides (`document.id.strategy`), a record
that comes again changes nothing.

A server that does not answer is asked again until it does. A document that it refuses for what is in it is reported,
and the others are written; other refusals end the task or are tried again (`refusals`).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

from headwater.connect.api import SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.connectors.mongo.client import check_uri, client_of, driver, told
from headwater.connect.connectors.mongo.refusals import is_there_already, sentence_of, trouble_in
from headwater.connect.connectors.mongo.sink_options import CONFIG_DEF, config_of, overridden_topics, unsupported
from headwater.connect.connectors.mongo.writes import (
    IDS_OF_KEYS,
    Write,
    delete_strategy,
    id_strategy,
    write_of,
    write_strategy,
)
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConfigError, DataError


class _Planned(NamedTuple):
    namespace: tuple[str, str]
    topic: str
    record: SinkRecord
    write: Write


class MongoSinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        self._configs: dict[str, dict[str, Any]] = {}  # by topic
        self._client: Any = client_of(CONFIG_DEF.parse(props))
        self._driver = driver()

    def put(self, records: Sequence[SinkRecord]) -> None:
        planned = [each for record in records if (each := self._plan(record)) is not None]
        for (topic, namespace), group in groupby(planned, key=lambda each: (each.topic, each.namespace)):
            writes = list(group)
            size = self._config(topic)["max.batch.size"] or len(writes)
            for at in range(0, len(writes), size):
                self._write(topic, namespace, writes[at : at + size])

    def _config(self, topic: str) -> dict[str, Any]:
        if topic not in self._configs:
            self._configs[topic] = config_of(self._props, topic)
        return self._configs[topic]

    def _plan(self, record: SinkRecord) -> _Planned | None:
        config = self._config(record.topic)
        try:
            write = write_of(config, record, datetime.now(UTC))
        except DataError as error:
            self.context.report(record, error)
            return None
        if write is None:
            return None
        return _Planned((config["database"], config["collection"] or record.topic), record.topic, record, write)

    def _write(self, topic: str, namespace: tuple[str, str], writes: Sequence[_Planned]) -> None:
        """In order, the server stops at the first document that it refuses: what follows that one is sent again."""
        database, collection = namespace
        ordered = self._config(topic)["bulk.write.ordered"]
        while writes:
            refused: list[Mapping[str, Any]] = []
            try:
                requests = [self._model(each.write) for each in writes]
                self._client[database][collection].bulk_write(requests, ordered=ordered)
            except self._driver.errors.BulkWriteError as error:
                trouble = trouble_in(error.details)
                if trouble is not None:
                    raise trouble from None
                refused = error.details.get("writeErrors", [])
            except self._driver.errors.PyMongoError as error:
                raise told(error) from None
            for each in refused:
                planned = writes[each["index"]]
                if not is_there_already(planned.write.kind, each):
                    self.context.report(planned.record, DataError(sentence_of(each)))
            writes = writes[refused[0]["index"] + 1 :] if refused and ordered else []

    def _model(self, write: Write) -> Any:
        match write.kind:
            case "replace":
                return self._driver.ReplaceOne(write.filter, write.document, upsert=True)
            case "insert":
                return self._driver.InsertOne(write.document)
            case "update":
                return self._driver.UpdateOne(write.filter, write.document, upsert=True)
        return self._driver.DeleteOne(write.filter)

    def stop(self) -> None:
        client, self._client = getattr(self, "_client", None), None
        if client is not None:
            client.close()


class MongoSinkConnector(SinkConnector):
    doc = "Records as documents of MongoDB's collections. `topic.override.<topic>.<property>` sets a property for one topic."
    aliases = ("com.mongodb.kafka.connect.MongoSinkConnector",)
    config_def: ClassVar[ConfigDef] = CONFIG_DEF
    task_class = MongoSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)] * max_tasks

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        errors = found["connection.uri"].errors
        errors += [f"{name} is not supported here; remove it" for name in unsupported(props)]
        if any(each.errors for name, each in found.items() if name != "connection.uri"):
            return
        _checked(found, check_uri, found["connection.uri"].value)
        _checked(found, _check_strategies, {name: each.value for name, each in found.items()})
        for topic in overridden_topics(props):
            try:
                _check_strategies(config_of(props, topic))
            except ConfigError as error:
                errors.append(f"topic.override.{topic}: {error}")


def _checked(found: dict[str, ConfigValue], check: Any, given: Any) -> None:
    try:
        check(given)
    except ConfigError as error:
        found[error.name or "connection.uri"].errors.append(str(error))


def _check_strategies(config: Mapping[str, Any]) -> None:
    ids = id_strategy(config)
    write_strategy(config)
    delete_strategy(config)
    for part, strategy in (("key", "PartialKeyStrategy"), ("value", "PartialValueStrategy")):
        name = f"document.id.strategy.partial.{part}.projection"
        if ids == strategy and (config[f"{name}.type"] == "none" or not config[f"{name}.list"]):
            raise ConfigError(f"{strategy} needs {name}.type and {name}.list", name=f"{name}.type")
    if config["delete.on.null.values"] and ids not in IDS_OF_KEYS:
        raise ConfigError(
            f"Deletions need an id that comes from the key: document.id.strategy is one of {', '.join(IDS_OF_KEYS)}",
            name="delete.on.null.values",
        )
