"""What runs on this machine, as documents: from the state file, and from the brokers themselves."""

import json
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headwater.cli.state import BrokerState, ConnectState, RegistryState, SqlState, UpState, ZooKeeperState

_PATIENCE_S: Final = 2.0


def local_documents(state: "UpState", *, asking: bool) -> dict[str, Any]:
    """What the state file says, and, when asking, what the brokers themselves say."""
    return {
        "brokers": [_broker_document(broker, state.version, asking) for broker in state.brokers],
        "data_dir": state.data_dir,
        "client_config": state.client_config,
        "supervisor": {"pid": state.supervisor_pid},
        "zookeeper": None if state.zookeeper is None else _zookeeper_document(state.zookeeper),
        "registry": None if state.registry is None else _registry_document(state.registry),
        "sql": None if state.sql is None else _registry_document(state.sql),
        "connect": None if state.connect is None else _registry_document(state.connect),
    }


def _registry_document(registry: "RegistryState | SqlState | ConnectState") -> dict[str, Any]:
    return {
        "url": registry.url,
        "pid": registry.pid,
        "ready": registry.ready and registry.is_alive,
        "log_file": registry.log_file,
        "restarts": registry.restarts,
    }


def _zookeeper_document(zookeeper: "ZooKeeperState") -> dict[str, Any]:
    return {
        "host": zookeeper.host,
        "port": zookeeper.port,
        "pid": zookeeper.server_pid,
        "ready": zookeeper.ready and zookeeper.is_alive,
        "data_dir": zookeeper.data_dir,
        "log_file": zookeeper.log_file,
        "restarts": zookeeper.restarts,
    }


def _broker_document(broker: "BrokerState", version: str, asking: bool) -> dict[str, Any]:
    figures = broker_figures(broker.metrics_port) if asking and broker.is_alive and broker.metrics_port >= 0 else None
    uptime_s = max(0.0, time.time() - broker.started_ms / 1000) if broker.is_alive else 0.0
    document: dict[str, Any] = {
        "id": broker.id,
        "host": broker.host,
        "port": broker.port,
        "pid": broker.pid,
        "ready": broker.ready and broker.is_alive and (figures is not None or not asking or broker.metrics_port < 0),
        "log_dirs": broker.log_dirs,
        "log_file": broker.log_file,
        "uptime_s": round(uptime_s, 1),
        "version": version,
        "restarts": broker.restarts,
        "metrics_url": f"http://127.0.0.1:{broker.metrics_port}/metrics" if broker.metrics_port >= 0 else None,
    }
    for key, value in (figures or {}).items():
        document.setdefault(key, value)
    return document


def broker_figures(metrics_port: int) -> dict[str, Any] | None:
    """The broker's own figures; None when it does not answer in time."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("127.0.0.1", metrics_port, timeout=_PATIENCE_S)
    try:
        connection.request("GET", "/status")
        response = connection.getresponse()
        figures = json.loads(response.read())
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return figures if isinstance(figures, dict) else None
