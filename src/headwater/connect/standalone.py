"""A standalone worker as a process: properties of the worker and of connectors, from files, to a running REST door.

A connector's file is a properties file, a JSON object of properties, or what `POST /connectors` takes.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headwater.base.config.properties import parse_properties
from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.redaction import assignments
from headwater.client import AsyncAdmin
from headwater.connect.config.providers import Providers
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog
from headwater.connect.rest.api import connect_door
from headwater.connect.rest.security import security_of
from headwater.connect.runtime.config_checks import ConfigChecks, check_worker
from headwater.connect.runtime.herder import TARGETS, StandaloneHerder
from headwater.connect.runtime.offsets import FileOffsetStore
from headwater.connect.runtime.task import State
from headwater.connect.runtime.worker import Worker
from headwater.connect.slots.worker_slots import open_slots, wants_slots
from headwater.connect.standalone_slot import offset_answers, run_slot
from headwater.web.door_security import DoorSecurity
from headwater.web.listeners import parse_listener
from headwater.web.process import listen, run_service
from headwater.web.server import HttpServer

logger = logging.getLogger("headwater.connect")

_PORT = 8083
_REACH_MS = 15_000  # brokers that start at the same time are there by then
_AGAIN_S = 0.25


class ConnectorFile(NamedTuple):
    name: str
    config: dict[str, str]
    target: State = State.RUNNING


def read_properties(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"{what} {path} cannot be read", str(why)) from None


def connector_file(path: str) -> ConnectorFile:
    text = read_properties(path, "The connector's file")
    config: Mapping[str, Any] | None = None
    target = "RUNNING"
    name = None
    try:
        found = json.loads(text)
    except ValueError as error:
        if text.lstrip().startswith("{"):
            raise UserError(f"{path} is no JSON", str(error)) from None
        config = parse_properties(text)
    else:
        if isinstance(found, dict) and isinstance(found.get("config"), dict):
            config, name = found["config"], found.get("name")
            target = str(found.get("initial_state") or target).upper()
        elif isinstance(found, dict):
            config = found
    name = name or (config or {}).get("name")
    if not config or not isinstance(name, str) or not name:
        raise UserError(
            f"{path} names no connector", "it has no property `name`", "docs/CONNECT.md shows what it has to say"
        )
    if target not in TARGETS:
        raise UserError(f"{path} has an initial_state that does not exist: {target}", hint="RUNNING, PAUSED or STOPPED")
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    return ConnectorFile(name, texts, TARGETS[target])


class StandaloneService:
    def __init__(
        self, worker_props: Mapping[str, str], connectors: Sequence[ConnectorFile], catalog: Catalog | None = None
    ) -> None:
        self._config = WorkerConfig(worker_props)
        self._connectors = connectors
        self._catalog = catalog
        self.herder: StandaloneHerder | None = None
        self._server: HttpServer | None = None
        self._security: DoorSecurity | None = None

    async def start(self) -> str:
        places = [parse_listener(each, _PORT) for each in self._config["listeners"]]
        client = Providers(self._config.props).resolved(self._config.client("admin", {}))
        self._security = security_of(self._config, places, client)
        store = await asyncio.to_thread(FileOffsetStore, self._config["offset.storage.file.filename"])
        if self._config.unknown:
            logger.warning("event=unknown-properties names=%s", ",".join(self._config.unknown)[:2000])
        catalog = self._catalog if self._catalog is not None else Catalog(self._config["plugin.allowlist"])
        check_worker(self._config, catalog)
        worker = Worker(self._config, store, catalog)
        checks = ConfigChecks(worker)
        for file in self._connectors:  # a wrong config is told at once, brokers or not
            await _told_of(file, checks.check, {**file.config, "name": file.name})
        await _reach_brokers(client)
        if wants_slots(self._config, in_group=False):
            open_slots(worker, offset_answers(store), run_slot)
        self.herder = StandaloneHerder(worker)
        self._server = HttpServer(self._security.guard(connect_door(self.herder)))
        shown = []
        for each in places:
            hint = "Another worker may be running; `listeners` in its properties names another port"
            shown.append(each.url(await listen(self._server, each, self._security.tls, "Connect", hint)))
        host = self._config["rest.advertised.host.name"] or places[0].host or "127.0.0.1"
        worker.worker_id = f"{host}:{self._config['rest.advertised.port'] or shown[0].rpartition(':')[2]}"
        for file in self._connectors:
            await _told_of(file, self.herder.create, file.name, file.config, file.target)
        names = ",".join(each.name for each in self._connectors)
        return f"ready connect listeners={','.join(shown)} connectors={names}"

    async def broken(self) -> UserError:
        """Nothing that happens to a connector ends its worker."""
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        if self.herder is not None:
            await asyncio.to_thread(self.herder.close)
        if self._security is not None:
            await self._security.close()


async def _told_of(file: ConnectorFile, act: Callable[..., object], *arguments: object) -> None:
    try:
        await asyncio.to_thread(act, *arguments)
    except ConnectError as error:
        raise UserError(f"The connector {file.name!r} cannot be started", str(error)) from None


async def _reach_brokers(client: Mapping[str, str]) -> None:
    """Kafka Connect's standalone worker asks for the cluster first, too, and ends if nobody answers for a while."""
    brokers = client.get("bootstrap.servers", "")
    loop = asyncio.get_running_loop()
    end = loop.time() + _REACH_MS / 1000
    is_told = False
    while True:
        try:
            async with AsyncAdmin({**client, "default.api.timeout.ms": str(_REACH_MS)}) as admin:
                await admin.describe_cluster()
                return
        except KafkaError as error:
            if error.code != ErrorCode.BROKER_NOT_AVAILABLE or loop.time() >= end:
                raise UserError(
                    f"The Connect worker cannot reach the brokers at {brokers}",
                    str(error),
                    "Start them first, or name others: bootstrap.servers in the worker's file, or --set bootstrap.servers=...",
                ) from None
            if not is_told:
                logger.warning("event=brokers-away waiting_s=%g error=%r", _REACH_MS / 1000, str(error))
                is_told = True
        await asyncio.sleep(_AGAIN_S)


def run_standalone(worker_path: str, connector_paths: Sequence[str], overrides: Sequence[str] = ()) -> int:
    """The exit code. `overrides`: name=value, which count before the file."""
    worker = parse_properties(read_properties(worker_path, "The worker's file"))
    settings, problem = assignments(overrides)
    if problem:
        raise UserError("Cannot read a setting", problem, "Write it as --set name=value")
    worker |= {name: value.strip() for name, value in settings.items()}
    connectors = [connector_file(path) for path in connector_paths]
    return run_service(lambda: StandaloneService(worker, connectors))
