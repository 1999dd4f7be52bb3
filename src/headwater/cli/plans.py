"""What `headwater up` runs: everything that its options come to. Pure: options and settings in, a plan out.

One broker keeps its metadata itself and has the id 0. Several share a ZooKeeper, which is started for them unless
zookeeper.connect names one; they have the ids 1 to N, ports in a row, and a directory each beside one another.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ANY_PORT: Final = "listeners=PLAINTEXT://localhost:0"
DEFAULT_PORT: Final = 9092
BROKERS_MAX: Final = 16  # on one machine, and for trying things out
_PORT_MAX: Final = 65535
_REPLICAS_MAX: Final = 3
# What each of several brokers has for itself: no single value can be right for all of them.
_OWN: Final = ("node.id", "broker.id", "listeners", "advertised.listeners", "log.dirs", "log.dir", "port", "host.name")


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

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class Plan(NamedTuple):
    data_dir: Path
    config_path: str | None
    brokers: list[BrokerPlan]
    zookeeper: ZooKeeperPlan | None
    log_file: Path | None  # of the supervisor; None: in the foreground


def plan_one(
    directory: Path, config_path: str | None, given: Mapping[str, str], sets: list[str], port: int | None, detach: bool
) -> Plan:
    """What the file or the options set is left alone; the rest gets what suits one broker on one machine."""
    overrides = list(sets)
    log_dirs = (given.get("log.dirs") or given.get("log.dir") or "").split(",")
    if not any(log_dirs):
        log_dirs = [str(directory / "broker-0")]
        overrides.append(f"log.dirs={log_dirs[0]}")
    if port is not None or not any(name in given for name in ("listeners", "port", "host.name")):
        overrides.append(f"listeners=PLAINTEXT://localhost:{DEFAULT_PORT if port is None else port}")
    if "metrics.port" not in given:
        overrides.append("metrics.port=0")  # what `headwater status` asks
    log_file = directory / "logs" / "broker-0.log" if detach else None
    # In one file with the supervisor's lines: whoever looks for what happened finds it in one place.
    return Plan(directory, config_path, [BrokerPlan(0, overrides, log_dirs, None)], None, log_file)


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
    brokers = [_one_of_several(directory, given, {**shared, **sets}, at, first) for at in range(count)]
    return Plan(directory, config_path, brokers, zookeeper, logs / "up.log" if detach else None)


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
    directory: Path, given: Mapping[str, str], shared: Mapping[str, str], at: int, first_port: int
) -> BrokerPlan:
    broker_id = at + 1
    log_dir = str(directory / f"broker-{broker_id}")
    own = {
        "node.id": str(broker_id),
        "log.dirs": log_dir,
        "listeners": f"PLAINTEXT://localhost:{first_port + at if first_port else 0}",
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
