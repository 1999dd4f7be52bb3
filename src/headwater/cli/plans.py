"""What `headwater up` runs: everything that its options come to. Pure: options and settings in, a plan out.

One broker keeps its metadata itself and has the id 0. Several share a ZooKeeper, which is started for them unless
zookeeper.connect names one; they have the ids 1 to N, ports in a row, and a directory each beside one another.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

ANY_PORT: Final = ("listeners=PLAINTEXT://localhost:0", "listeners=SASL_SSL://localhost:0")
DEFAULT_PORT: Final = 9092
REGISTRY_PORT: Final = 8081
SQL_PORT: Final = 8088
CONNECT_PORT: Final = 8083
BROKERS_MAX: Final = 16  # on one machine, and for trying things out
_PORT_MAX: Final = 65535
_REPLICAS_MAX: Final = 3
# What each of several brokers has for itself: no single value can be right for all of them.
_OWN: Final = ("node.id", "broker.id", "listeners", "advertised.listeners", "log.dirs", "log.dir", "port", "host.name")
_ADDRESSES: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map", "port", "host.name")


class SecuredFiles(Protocol):
    """Where `headwater up --secure` keeps what brokers and clients need."""

    @property
    def server_config(self) -> Path: ...

    @property
    def client_config(self) -> Path: ...

    @property
    def zookeeper_jaas(self) -> Path: ...

    def key_store(self, broker_id: int) -> Path: ...


class PlanError(ValueError):
    """Options that cannot be taken together."""


class BrokerPlan(NamedTuple):
    id: int
    overrides: list[str]
    log_dirs: list[str]
    log_file: Path | None  # None: its log goes where the supervisor's goes


class ZooKeeperPlan(NamedTuple):
    data_dir: Path
    port: int
    log_file: Path
    jaas_file: Path | None = None  # with its users: nobody else is served

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class RegistryPlan(NamedTuple):
    """A schema registry beside the brokers."""

    port: int  # 0: any that is free
    log_file: Path | None


class SqlPlan(NamedTuple):
    """A SQL server beside the brokers."""

    port: int  # 0: any that is free
    state_dir: Path
    log_file: Path | None


class ConnectPlan(NamedTuple):
    """A Connect worker beside the brokers."""

    port: int  # 0: any that is free
    log_file: Path | None


class Plan(NamedTuple):
    data_dir: Path
    config_path: str | None
    brokers: list[BrokerPlan]
    zookeeper: ZooKeeperPlan | None
    log_file: Path | None  # of the supervisor; None: in the foreground
    registry: RegistryPlan | None = None
    sql: SqlPlan | None = None
    connect: ConnectPlan | None = None
    client_config: Path | None = None  # what clients need, where they need more than an address


def plan_one(
    directory: Path,
    config_path: str | None,
    given: Mapping[str, str],
    sets: list[str],
    port: int | None,
    detach: bool,
    protocol: str = "PLAINTEXT",
) -> Plan:
    """What the file or the options set is left alone; the rest gets what suits one broker on one machine."""
    overrides = list(sets)
    log_dirs = (given.get("log.dirs") or given.get("log.dir") or "").split(",")
    if not any(log_dirs):
        log_dirs = [_log_dir(directory, 0)]
        overrides.append(f"log.dirs={log_dirs[0]}")
    if port is not None or not any(name in given for name in ("listeners", "port", "host.name")):
        overrides.append(f"listeners={protocol}://localhost:{DEFAULT_PORT if port is None else port}")
    if "metrics.port" not in given:
        overrides.append("metrics.port=0")  # what `headwater status` asks
    if config_path is None and "group.initial.rebalance.delay.ms" not in given:
        overrides.append("group.initial.rebalance.delay.ms=0")  # as Apache Kafka's quick start: there are few members
    log_file = directory / "logs" / "broker-0.log" if detach else None
    # In one file with the supervisor's lines: whoever looks for what happened finds it in one place.
    return Plan(directory, config_path, [BrokerPlan(0, overrides, log_dirs, None)], None, log_file)


def plan_secured(
    directory: Path,
    server_config: Path,
    client_config: Path,
    given: Mapping[str, str],
    sets: list[str],
    port: int | None,
    detach: bool,
) -> Plan:
    """One broker, whose only listener asks for a login, over TLS. `given` is what `sets` say."""
    _refuse_addresses(given)
    plan = plan_one(directory, str(server_config), given, sets, port, detach, "SASL_SSL")
    return plan._replace(client_config=client_config)


def plan_several_secured(
    directory: Path,
    secured: SecuredFiles,
    sets: Mapping[str, str],
    *,
    count: int,
    port: int | None,
    zookeeper_port: int,
    detach: bool,
) -> Plan:
    """Several of them: each with a key and a certificate of its own, and by the same login at the others."""
    _refuse_addresses(sets)
    plan = plan_several(
        directory,
        str(secured.server_config),
        sets,
        sets,
        count=count,
        port=port,
        zookeeper_port=zookeeper_port,
        detach=detach,
        protocol="SASL_SSL",
    )
    brokers = [
        each._replace(overrides=[*each.overrides, f"ssl.keystore.location={secured.key_store(each.id)}"])
        for each in plan.brokers
    ]
    zookeeper = plan.zookeeper
    if zookeeper is not None:
        zookeeper = zookeeper._replace(jaas_file=secured.zookeeper_jaas)
    return plan._replace(brokers=brokers, client_config=secured.client_config, zookeeper=zookeeper)


def _refuse_addresses(sets: Mapping[str, str]) -> None:
    for name in _ADDRESSES:
        if name in sets:
            raise PlanError(f"{name} cannot be set with --secure, which has one listener: name its port with --port")


def plan_several(
    directory: Path,
    config_path: str | None,
    given: Mapping[str, str],
    sets: Mapping[str, str],
    *,
    count: int,
    port: int | None,
    zookeeper_port: int,
    detach: bool,
    protocol: str = "PLAINTEXT",
) -> Plan:
    """`given` is the file with `sets` over it. Each process has a log file of its own, whether detached or not."""
    for name in _OWN:
        if name in sets:
            raise PlanError(f"{name} cannot be set for several brokers at once: each has its own")
    first = DEFAULT_PORT if port is None else port
    if first == 0 and "advertised.listeners" in given:
        raise PlanError("advertised.listeners cannot be right for brokers on any free port: name one with --port")
    if first + count - 1 > _PORT_MAX:
        raise PlanError(f"{count} brokers need the ports {first} to {first + count - 1}, and {_PORT_MAX} is the last")
    logs = directory / "logs"
    zookeeper = None
    shared = cluster_settings(count)
    if not given.get("zookeeper.connect"):
        zookeeper = ZooKeeperPlan(directory / "zookeeper", zookeeper_port, logs / "zookeeper.log")
        shared["zookeeper.connect"] = zookeeper.address
        shared["zookeeper.session.timeout.ms"] = "1500"
        shared["zookeeper.connection.timeout.ms"] = "30000"  # all start at once, which keeps a machine busy
    shared = {name: value for name, value in shared.items() if name not in given}
    brokers = [_one_of_several(directory, given, {**shared, **sets}, at, first, protocol) for at in range(count)]
    return Plan(directory, config_path, brokers, zookeeper, logs / "up.log" if detach else None)


def with_registry(
    plan: Plan,
    port: int | None,
    broker_port: int | None,
    given: Mapping[str, str],
    is_free: Callable[[int], bool] = lambda _port: True,
) -> Plan:
    """Brokers on any free port have a registry on any free port, unless one is named: several can be tried side by
    side.

    Brokers know a registry whose port is known beforehand, for topics with schema validation, unless they were `given`
    another. Where the port is not free, somebody else answers there, and the registry will not begin: they know none.
    """
    if port is None:
        port = 0 if broker_port == 0 else REGISTRY_PORT
    has_files = plan.log_file is not None or len(plan.brokers) > 1
    log_file = plan.data_dir / "logs" / "registry.log" if has_files else None
    brokers = plan.brokers
    if (
        port
        and not any(name.endswith("schema.registry.url") for name in given)
        and port != broker_port
        and is_free(port)
    ):
        url = f"headwater.schema.registry.url=http://127.0.0.1:{port}"
        brokers = [each._replace(overrides=[*each.overrides, url]) for each in brokers]
    return plan._replace(registry=RegistryPlan(port, log_file), brokers=brokers)


def with_sql(plan: Plan, port: int | None, broker_port: int | None) -> Plan:
    """As with the registry: brokers on any free port have a SQL server on any free port, unless one is named."""
    if port is None:
        port = 0 if broker_port == 0 else SQL_PORT
    has_files = plan.log_file is not None or len(plan.brokers) > 1
    log_file = plan.data_dir / "logs" / "sql.log" if has_files else None
    return plan._replace(sql=SqlPlan(port, plan.data_dir / "sql", log_file))


def with_connect(plan: Plan, port: int | None, broker_port: int | None) -> Plan:
    """As with the registry: brokers on any free port have a worker on any free port, unless one is named."""
    if port is None:
        port = 0 if broker_port == 0 else CONNECT_PORT
    has_files = plan.log_file is not None or len(plan.brokers) > 1
    return plan._replace(connect=ConnectPlan(port, plan.data_dir / "logs" / "connect.log" if has_files else None))


def _log_dir(directory: Path, broker_id: int) -> str:
    found = str(directory / f"broker-{broker_id}")
    if "," in found:
        raise PlanError(f"{directory} cannot be the data directory: in log.dirs a comma ends a path")
    return found


def cluster_settings(count: int) -> dict[str, str]:
    """Three replicas of everything where there are three brokers; two of them have to be in sync for transactions."""
    replicas = str(min(_REPLICAS_MAX, count))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, count)),
    }


def _one_of_several(
    directory: Path, given: Mapping[str, str], shared: Mapping[str, str], at: int, first_port: int, protocol: str
) -> BrokerPlan:
    broker_id = at + 1
    log_dir = _log_dir(directory, broker_id)
    own = {
        "node.id": str(broker_id),
        "log.dirs": log_dir,
        "listeners": f"{protocol}://localhost:{first_port + at if first_port else 0}",
        "metrics.port": "0",  # what `headwater status` asks
    }
    if (metrics := given.get("metrics.port", "").strip()).isdigit() and metrics != "0":
        own["metrics.port"] = str(int(metrics) + at)
    if "broker.id" in given:
        own["broker.id"] = str(broker_id)
    if "advertised.listeners" in given:
        own["advertised.listeners"] = own["listeners"]
    overrides = [f"{name}={value}" for name, value in {**shared, **own}.items()]
    return BrokerPlan(broker_id, overrides, [log_dir], directory / "logs" / f"broker-{broker_id}.log")
