"""ElasticsearchSink: records as documents, by the `_bulk` requests that Elasticsearch (7 and later) and OpenSearch have
in common.

At least once, and a record that comes again changes nothing, unless the server makes the ids (`bulk`). What a poll
gives is written before `put` returns, so nothing is left to flush. A server that does not answer, or has too much to
do, is asked again by way of the worker, which stays in its group meanwhile; what has been done of the records is not
sent again.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, NoReturn
from urllib.parse import quote

from headwater.base.errors import UserError
from headwater.base.security.tls import TlsSettings, client_context
from headwater.connect.api import SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.connectors.elasticsearch.bulk import (
    INDEX_MISSING,
    Action,
    Answered,
    Outcome,
    Verdict,
    action_of,
    bulks,
    error_type,
    outcomes,
    still_open,
    trouble,
)
from headwater.connect.connectors.elasticsearch.documents import mapping_of
from headwater.connect.connectors.elasticsearch.nodes import JSON, LINES, Cluster, Timeouts
from headwater.connect.connectors.elasticsearch.options import (
    CONFIG_DEF,
    TLS,
    Target,
    check,
    is_upsert,
    nodes_of,
    target_of,
    unsupported,
)
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConfigError, ConnectError, DataError, RetriableError

logger = logging.getLogger("headwater.connect")
# Of an answer, no more than is looked at; `status` keeps an item for each action.
_BULK: Final = "/_bulk?filter_path=errors,items.*.status,items.*.error"
_BACKOFF_MAX_MS: Final = 60_000
_Place = tuple[str, int, int]


class ElasticsearchSinkTask(SinkTask):
    clock: Callable[[], float]

    def start(self, props: Mapping[str, str]) -> None:
        self.clock = time.monotonic
        self._config = config = CONFIG_DEF.parse(props)
        check(config)
        self._in_order = is_upsert(config)
        self._cluster = _cluster(config)
        self._pool: ThreadPoolExecutor | None = None
        self._targets: dict[str, Target] = {}  # by topic
        self._ready: set[str] = set()  # indices that are there, with a mapping if they are to have one
        self._lacking: dict[str, bool] = {}  # indices that lack a mapping, and whether they are there
        self._done: set[_Place] = set()  # of the records in hand: written, reported or passed over
        self._failures = 0
        self._failing_since = 0.0

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Records that come again after a RetriableError are the same, or fewer."""
        self._lacking.clear()  # others make indices, too
        try:
            self._write([each for each in records if _place(each) not in self._done])
        except RetriableError as error:
            self._try_again(str(error))
        self._done.clear()
        self._failures = 0

    def _write(self, records: Sequence[SinkRecord]) -> None:
        actions = [each for record in records if (each := self._action(record)) is not None]
        config = self._config
        wanted = list(bulks(actions, config["batch.size"], config["bulk.size.bytes"]))
        answered: list[Answered] = []
        if self._in_order or len(wanted) < 2 or config["max.in.flight.requests"] == 1:
            for bulk in wanted:
                found = self._send(bulk)
                answered += found
                if any(outcome.verdict is Verdict.AGAIN for _, outcome in found):
                    break  # the others wait for the next try
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(config["max.in.flight.requests"], "elasticsearch-sink")
            for found in self._pool.map(self._send, wanted):
                answered += found
        self._settle(answered)

    def _send(self, bulk: list[Action]) -> list[Answered]:
        """Halves of what is too large go one after the other. Raises ConnectError for what will not pass."""
        try:
            answer = self._cluster.request("POST", _BULK, b"".join(each.data for each in bulk), LINES)
            found = outcomes(bulk, answer.status, answer.data, sensitive=self._config["log.sensitive.data"])
        except RetriableError as error:
            return [(each, Outcome(Verdict.AGAIN, str(error))) for each in bulk]
        if found is not None:
            return list(zip(bulk, found, strict=True))
        middle = len(bulk) // 2
        first = self._send(bulk[:middle])
        if self._in_order and any(outcome.verdict is Verdict.AGAIN for _, outcome in first):
            return first
        return first + self._send(bulk[middle:])

    def _settle(self, answered: Sequence[Answered]) -> None:
        """By the task's own thread. Raises RetriableError if something is to be sent again."""
        still = still_open(answered, in_order=self._in_order)
        for at, (action, outcome) in enumerate(answered):
            if outcome.kind == INDEX_MISSING:
                self._ready.discard(action.index_name)
            if at in still:
                continue
            if outcome.verdict is Verdict.REFUSED:
                self._refuse(action.record, outcome)
            elif outcome.verdict is Verdict.CONFLICT and self._config["behavior.on.version.conflict"].lower() == "warn":
                _log("version-conflict", action.record, outcome.sentence)
            self._done.add(_place(action.record))
            self._failures = 0
        if still:
            raise RetriableError(answered[min(still)][1].sentence)

    def _action(self, record: SinkRecord) -> Action | None:
        target = self._target(record.topic)
        try:
            action = action_of(self._config, target, record)
            if action is not None and action.kind != "delete" and target.is_made:
                self._make_index(target, record)
        except DataError as error:
            if self._config["drop.invalid.message"]:
                self._pass_over(record, error, warn=True)
            else:
                self.context.report(record, error)
            action = None
        if action is None:
            self._done.add(_place(record))
        return action

    def _target(self, topic: str) -> Target:
        if topic not in self._targets:
            self._targets[topic] = target_of(self._config, topic)
        return self._targets[topic]

    def _make_index(self, target: Target, record: SinkRecord) -> None:
        """An index that is missing is made, and gets a mapping where it has none. Of records without a schema, the
        first of a put asks the server.
        """
        name = target.index_name
        if name in self._ready:
            return
        path = f"/{quote(name, safe='')}"
        if name not in self._lacking:
            there = self._cluster.request("HEAD", path)
            if there.status not in (200, 404):
                raise trouble(there.status, there.data)
            if there.status == 404 or (target.with_mapping and self._has_no_mapping(path)):
                self._lacking[name] = there.status == 200
        if name in self._lacking:
            mapping = mapping_of(record.value_schema, compact=self._config["compact.map.entries"]) if target.with_mapping else None  # fmt: skip
            if not self._lacking[name]:
                self._put(path, {} if mapping is None else {"mappings": mapping})
            elif mapping is not None:
                self._put(f"{path}/_mapping", mapping)
            del self._lacking[name]
        self._ready.add(name)

    def _has_no_mapping(self, path: str) -> bool:
        answer = self._cluster.request("GET", f"{path}/_mapping")
        if answer.status != 200:
            raise trouble(answer.status, answer.data)
        try:
            return not any(each["mappings"].get("properties") for each in json.loads(answer.data).values())
        except (ValueError, LookupError, TypeError, AttributeError):
            raise RetriableError("Elasticsearch gave an answer that is no mapping") from None

    def _put(self, path: str, document: Mapping[str, Any]) -> None:
        answer = self._cluster.request("PUT", path, json.dumps(document).encode(), JSON)
        if answer.status != 200 and error_type(answer.data) != "resource_already_exists_exception":
            raise trouble(answer.status, answer.data)

    def _refuse(self, record: SinkRecord, outcome: Outcome) -> None:
        error = DataError(f"Elasticsearch refused the document: {outcome.sentence}")
        behavior = self._config["behavior.on.malformed.documents"].lower()
        if behavior == "fail":
            self.context.report(record, error)
        else:
            self._pass_over(record, error, warn=behavior == "warn")

    def _pass_over(self, record: SinkRecord, error: DataError, *, warn: bool) -> None:
        if warn:
            _log("record-ignored", record, str(error))
        if self.context.config.get("errors.tolerance", "none").strip().lower() == "all":
            self.context.report(record, error)

    def _try_again(self, sentence: str) -> NoReturn:
        config, now = self._config, self.clock()
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        if self._failures > config["max.retries"] or (now - self._failing_since) * 1000 >= config["flush.timeout.ms"]:
            raise ConnectError(f"{sentence} (after {self._failures} tries)")
        self.context.timeout(min(config["retry.backoff.ms"] << self._failures - 1, _BACKOFF_MAX_MS))
        raise RetriableError(sentence)

    def stop(self) -> None:
        pool, self._pool = getattr(self, "_pool", None), None
        if pool is not None:
            pool.shutdown()
        cluster = getattr(self, "_cluster", None)
        if cluster is not None:
            cluster.close()


def _place(record: SinkRecord) -> _Place:
    return record.original_topic, record.original_partition, record.offset


def _log(event: str, record: SinkRecord, error: str) -> None:
    logger.warning("event=%s topic=%r partition=%d offset=%d error=%r", event, *_place(record), error)


def _cluster(config: Mapping[str, Any]) -> Cluster:
    name, password = config["connection.username"], config["connection.password"]
    milliseconds = ("connection.timeout.ms", "read.timeout.ms", "max.connection.idle.time.ms")
    return Cluster(
        nodes_of(config["connection.url"]),
        Timeouts(*(config[each] / 1000 for each in milliseconds)),
        login=None if name is None else (name, password),
        tls=tls_context(config),
        compress=config["connection.compression"],
    )


def tls_context(config: Mapping[str, Any]) -> Any:
    """None: no TLS. Raises ConfigError."""
    if not nodes_of(config["connection.url"]).tls:
        return None
    try:
        return client_context(
            TlsSettings(
                keystore_location=config[f"{TLS}keystore.location"],
                keystore_password=config[f"{TLS}keystore.password"],
                key_password=config[f"{TLS}key.password"],
                truststore_location=config[f"{TLS}truststore.location"],
                truststore_password=config[f"{TLS}truststore.password"],
                enabled_protocols=tuple(config[f"{TLS}enabled.protocols"]),
                endpoint_identification=config[f"{TLS}endpoint.identification.algorithm"],
            )
        )
    except UserError as error:
        raise ConfigError(f"{TLS}*: {error}", name="elastic.security.protocol") from None


class ElasticsearchSinkConnector(SinkConnector):
    doc = "Records as documents of Elasticsearch's (7 and later) or OpenSearch's indices; tombstones may delete."
    aliases = (
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "io.aiven.connect.elasticsearch.ElasticsearchSinkConnector",
        "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
    )
    config_def: ClassVar[ConfigDef] = CONFIG_DEF
    task_class = ElasticsearchSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)] * max_tasks

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        found["connection.url"].errors += [f"{name} is not supported here; remove it" for name in unsupported(props)]
        if any(each.errors for each in found.values()):
            return
        config = {name: each.value for name, each in found.items()}
        try:
            check(config)
            tls_context(config)
        except ConfigError as error:
            found[error.name or "connection.url"].errors.append(str(error))
