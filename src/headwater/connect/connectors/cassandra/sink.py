"""CassandraSink: records as rows of Cassandra's tables; tombstones delete. At least once, and a record that is written
again changes nothing, for its row has the record's own time (`rows`).

A cluster that does not answer is asked again until it does; a row that it refuses is reported, unless its table is gone
or has changed.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from headwater.base.errors import UserError
from headwater.base.security.tls import TlsSettings, client_context
from headwater.connect.api import SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.connectors.cassandra.options import CONFIG_DEF, TableOptions, tables_of, unsupported
from headwater.connect.connectors.cassandra.rows import UNSET, RowPlan, TableShape, located, named_values
from headwater.connect.connectors.cassandra.values import to_cql
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConfigError, ConnectError, DataError, RetriableError

logger = logging.getLogger("headwater.connect")


class CassandraSinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        self._config = CONFIG_DEF.parse(props)
        self._tables = tables_of(props)
        self._driver = _driver()
        self._cluster: Any = None
        self._session: Any = None
        self._writers: dict[str, list[_Writer]] = {}  # by topic

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        if self._session is None:
            self._connect()
        requests: list[_Request] = []
        for record in records:
            for writer in self._writers_of(record.original_topic):
                try:
                    requests.append(_Request(record, writer.request(record), writer))
                except (DataError, TypeError, ValueError, ArithmeticError) as error:
                    self._report(record, error if isinstance(error, DataError) else DataError(str(error)), "All")
        in_order = any(each.writer.in_order for each in requests)
        self._send(requests, 1 if in_order else self._config["maxConcurrentRequests"])

    def _send(self, requests: "Sequence[_Request]", concurrency: int) -> None:
        run = self._driver.concurrent.execute_concurrent
        answers = run(
            self._session,
            [(each.statement, None) for each in requests],
            concurrency=concurrency,
            raise_on_first_error=False,
        )
        wrong = [(each, answer) for each, (good, answer) in zip(requests, answers, strict=True) if not good]
        for _, answer in wrong:
            if isinstance(answer, self._driver.Unauthorized):
                raise ConnectError(f"Cassandra said: {_sentence(answer)}")
            if not isinstance(answer, self._driver.InvalidRequest | TypeError | ValueError):
                raise RetriableError(f"Cassandra said: {_sentence(answer)}")  # rows that are through are written again
        for writer in {id(each.writer): each.writer for each, _ in wrong}.values():
            self._check_table(writer)
        for each, answer in wrong:
            self._report(each.record, DataError(f"Cassandra refused the row: {_sentence(answer)}"), "Driver", "All")

    def _check_table(self, writer: "_Writer") -> None:
        """Rows that are refused because their table is another now are no bad records."""
        options = writer.options
        found = self._shape(options)
        if found == writer.shape:  # as far as the driver has heard
            try:
                self._cluster.refresh_table_metadata(options.keyspace, options.table)
            except self._driver.DriverException as error:
                raise RetriableError(f"Cassandra said: {_sentence(error)}") from None
            found = self._shape(options)
        if found == writer.shape:
            return
        self._writers = {}
        place = f"{options.keyspace}.{options.table}"
        if not found.columns:
            raise ConnectError(f"There is no table {place} any more")
        raise RetriableError(f"The table {place} has changed")

    def _shape(self, options: TableOptions) -> TableShape:
        return located(options, self._cluster.metadata.keyspaces)[1]

    def _report(self, record: SinkRecord, error: DataError, *ignoring: str) -> None:
        mode = {"true": "All", "false": "None"}.get(self._config["ignoreErrors"], self._config["ignoreErrors"])
        if mode in ignoring:
            place = (record.original_topic, record.original_partition, record.offset)
            logger.warning("event=record-ignored topic=%r partition=%d offset=%d error=%r", *place, str(error))
        else:
            self.context.report(record, error)

    def _connect(self) -> None:
        self._disconnect()
        self._cluster = _cluster(self._driver, self._config)
        try:
            self._session = self._cluster.connect()
        except (self._driver.NoHostAvailable, self._driver.DriverException, OSError) as error:
            self._disconnect()
            causes = error.errors.values() if isinstance(error, self._driver.NoHostAvailable) else [error]
            if any(isinstance(each, self._driver.AuthenticationFailed) for each in causes):
                raise ConnectError(f"Cassandra said: {_sentence(error)}") from None
            raise RetriableError(f"Cannot connect to Cassandra: {_sentence(error)}") from None

    def _writers_of(self, topic: str) -> "list[_Writer]":
        if topic not in self._writers:
            wanted = [each for each in self._tables if each.topic == topic]
            if not wanted:
                raise ConnectError(f"There is no topic.{topic}.<keyspace>.<table>.mapping")
            try:
                self._writers[topic] = [_Writer(self._driver, self._session, each) for each in wanted]
            except (self._driver.InvalidRequest, self._driver.SyntaxException) as error:
                raise ConnectError(f"Cassandra said: {_sentence(error)}") from None
            except (self._driver.NoHostAvailable, self._driver.DriverException) as error:
                raise RetriableError(f"Cassandra said: {_sentence(error)}") from None
        return self._writers[topic]

    def stop(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        cluster, self._cluster, self._session = getattr(self, "_cluster", None), None, None
        self._writers = {}
        if cluster is not None:
            cluster.shutdown()


class _Writer:
    """Prepared statements of one topic and table. `in_order`: rows have no times of their own."""

    def __init__(self, driver: Any, session: Any, options: TableOptions) -> None:
        self.options, self.shape = located(options, session.cluster.metadata.keyspaces)
        self._unset = driver.UNSET_VALUE
        self.in_order = options.query is not None
        self._plan: RowPlan | None = None
        if options.query is not None:
            self._insert = self._prepared(driver, session, options.query)
            return
        self._plan = RowPlan(self.options, self.shape)
        self._insert = self._prepared(driver, session, self._plan.insert)
        self._delete = self._prepared(driver, session, self._plan.delete)

    def _prepared(self, driver: Any, session: Any, cql: str) -> Any:
        made = session.prepare(cql)
        made.consistency_level = getattr(driver.ConsistencyLevel, self.options.consistency)
        made.is_idempotent = not self.in_order
        return made

    def request(self, record: SinkRecord) -> Any:
        """A bound statement. Raises DataError, or what the driver raises for a value."""
        if self._plan is None:
            given = named_values(self.options, record)
            kinds = {each.name: each.type.cql_parameterized_type() for each in self._insert.column_metadata}
            values = {name: value if value is UNSET else to_cql(kinds[name], value) for name, value in given.items() if name in kinds}  # fmt: skip
            return self._insert.bind({name: self._unset if each is UNSET else each for name, each in values.items()})
        write = self._plan.write(record)
        statement = self._delete if write.delete else self._insert
        return statement.bind([self._unset if each is UNSET else each for each in write.values])


class _Request(NamedTuple):
    record: SinkRecord
    statement: Any
    writer: _Writer


def _sentence(error: BaseException) -> str:
    """A NoHostAvailable has an error for each host, in a dictionary."""
    match error.args:
        case (str(text), dict(errors)):
            return f"{text} {', '.join(f'{host}: {each}' for host, each in errors.items())}"
    return str(error) or type(error).__name__


def _cluster(driver: Any, config: Mapping[str, Any]) -> Any:
    policy = driver.policies.DCAwareRoundRobinPolicy(local_dc=config["loadBalancing.localDc"]) if config["loadBalancing.localDc"] else driver.policies.RoundRobinPolicy()  # fmt: skip
    profile = driver.ExecutionProfile(
        load_balancing_policy=driver.policies.TokenAwarePolicy(policy), request_timeout=config["queryExecutionTimeout"]
    )
    login = None
    if config["auth.provider"] == "PLAIN":
        login = driver.PlainTextAuthProvider(config["auth.username"], config["auth.password"])
    return driver.Cluster(
        contact_points=config["contactPoints"],
        port=config["port"],
        auth_provider=login,
        ssl_context=tls_context(config),
        compression=False if config["compression"] == "None" else config["compression"].lower(),
        execution_profiles={driver.EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=10,
    )


def tls_context(config: Mapping[str, Any]) -> Any:
    """None: no TLS. Raises ConfigError."""
    if config["ssl.provider"] == "None":
        return None
    try:
        return client_context(
            TlsSettings(
                keystore_location=config["ssl.keystore.path"],
                keystore_password=config["ssl.keystore.password"],
                truststore_location=config["ssl.truststore.path"],
                truststore_password=config["ssl.truststore.password"],
                endpoint_identification="https" if config["ssl.hostnameValidation"] else "",
            )
        )
    except UserError as error:
        raise ConfigError(f"ssl.provider={config['ssl.provider']}: {error}", name="ssl.provider") from None


def _driver() -> Any:
    """The names that are used of the driver, in one place."""
    try:
        import cassandra
        import cassandra.auth
        import cassandra.cluster
        import cassandra.concurrent
        import cassandra.policies
        import cassandra.protocol
        import cassandra.query
    except ImportError:
        raise ConfigError("CassandraSink needs the package cassandra-driver: pip install 'headwater[cassandra]'") from None  # fmt: skip

    class Driver:
        InvalidRequest, Unauthorized = cassandra.InvalidRequest, cassandra.Unauthorized
        DriverException, AuthenticationFailed = cassandra.DriverException, cassandra.AuthenticationFailed
        ConsistencyLevel = cassandra.ConsistencyLevel
        SyntaxException = cassandra.protocol.SyntaxException
        NoHostAvailable, Cluster = cassandra.cluster.NoHostAvailable, cassandra.cluster.Cluster
        ExecutionProfile = cassandra.cluster.ExecutionProfile
        EXEC_PROFILE_DEFAULT = cassandra.cluster.EXEC_PROFILE_DEFAULT
        PlainTextAuthProvider = cassandra.auth.PlainTextAuthProvider
        UNSET_VALUE = cassandra.query.UNSET_VALUE
        policies, concurrent = cassandra.policies, cassandra.concurrent

    return Driver


class CassandraSinkConnector(SinkConnector):
    doc = (
        "Records as rows of Apache Cassandra's tables. `topic.<topic>.<keyspace>.<table>.mapping` says which field goes into which column; "
        "beside it stand `consistencyLevel`, `ttl`, `ttlTimeUnit`, `timestampTimeUnit`, `nullToUnset`, `deletesEnabled` and `query`."
    )
    aliases = ("com.datastax.oss.kafka.sink.CassandraSinkConnector", "com.datastax.kafkaconnector.DseSinkConnector")
    config_def: ClassVar[ConfigDef] = CONFIG_DEF
    task_class = CassandraSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)] * max_tasks

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        errors = found["contactPoints"].errors
        errors += [f"{name} is not supported here; remove it" for name in unsupported(props)]
        try:
            topics = {each.topic for each in tables_of(props)}
            if not topics:
                errors.append("topic.<topic>.<keyspace>.<table>.mapping is missing")
            elif "topics" in props:
                missing = [each for each in map(str.strip, props["topics"].split(",")) if each not in topics]
                errors += [f"topic.{each}.<keyspace>.<table>.mapping is missing" for each in missing]
        except ConfigError as error:
            errors.append(str(error))
        if "contactPoints" in props and not found["loadBalancing.localDc"].value:
            found["loadBalancing.localDc"].errors.append("contactPoints needs it: the name of the data center")
        if found["auth.provider"].value == "PLAIN" and not found["auth.username"].value:
            found["auth.username"].errors.append("auth.provider=PLAIN needs it")
        try:
            tls_context({name: each.value for name, each in found.items()})
        except ConfigError as error:
            found["ssl.provider"].errors.append(str(error))
