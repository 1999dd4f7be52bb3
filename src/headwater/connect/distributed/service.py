"""A distributed worker as a process: makes and reads the storage topics, opens the REST door, joins the group."""

import asyncio
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headwater.base.config.properties import parse_properties
from headwater.base.errors import KafkaError, UserError
from headwater.base.redaction import assignments
from headwater.client import Admin, Producer
from headwater.connect.config.distributed import distributed_config, leader_uses_transactions, topic_settings
from headwater.connect.config.providers import Providers
from headwater.connect.distributed.herder import DistributedHerder
from headwater.connect.distributed.leader import Leader
from headwater.connect.distributed.peers import ALGORITHM, SIGNATURE
from headwater.connect.distributed.slot_worker import permission_answers, run_slot
from headwater.connect.distributed.stores import Command, ConfigStore, KafkaOffsetStore, StatusStore
from headwater.connect.distributed.topic_log import ensure_topic
from headwater.connect.distributed.transactional_worker import TransactionalWorker, stores_of_connectors
from headwater.connect.distributed.worker_membership import Membership
from headwater.connect.plugins import Catalog
from headwater.connect.rest import rights
from headwater.connect.rest.api import Route, connect_door
from headwater.connect.rest.forwarding import Forwarding
from headwater.connect.rest.loggers import set_level
from headwater.connect.rest.security import peers_tls, security_of
from headwater.connect.runtime.config_checks import check_worker
from headwater.connect.slots.worker_slots import open_slots, wants_slots
from headwater.connect.standalone import read_properties
from headwater.web.content import json_body
from headwater.web.door_security import DoorSecurity
from headwater.web.listeners import parse_listener
from headwater.web.messages import HttpError, Request, Response
from headwater.web.process import listen, run_service
from headwater.web.server import HttpServer

logger = logging.getLogger("headwater.connect")

_PORT: Final = 8083


class DistributedService:
    """`herder` is there when `start` has returned."""

    def __init__(self, props: Mapping[str, str], catalog: Catalog | None = None) -> None:
        self._config = distributed_config(props)
        self._catalog = catalog
        self._closing: list[Any] = []  # in the order in which they are opened
        self._server: HttpServer | None = None
        self._listeners = [parse_listener(each, _PORT) for each in self._config["listeners"]]
        self._peers_tls = peers_tls(self._config, self._listeners)
        self._forwarding = Forwarding(self._peers_tls)
        self._security: DoorSecurity | None = None
        self._broken: asyncio.Future[UserError] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self.herder: DistributedHerder | None = None

    async def start(self) -> str:
        client = Providers(self._config.props).resolved(self._config.client("admin", {}))
        self._security = security_of(self._config, self._listeners, client, distributed=True)
        if self._config.unknown:
            logger.warning("event=unknown-properties names=%s", ",".join(self._config.unknown)[:2000])
        try:
            herder = await asyncio.to_thread(self._open)
        except KafkaError as error:
            raise UserError("The Connect worker cannot reach its topics", str(error)) from None
        door = connect_door(herder, *_between_workers(herder), forwarding=self._forwarding)
        self._server = HttpServer(self._security.guard(door))
        shown = []
        for each in self._listeners:
            hint = "Another worker may be running; `listeners` in its properties names another port"
            shown.append(each.url(await listen(self._server, each, self._security.tls, "Connect", hint)))
        host = self._config["rest.advertised.host.name"] or self._listeners[0].host or "127.0.0.1"
        port_text = self._config["rest.advertised.port"] or shown[0].rpartition(":")[2]
        await asyncio.to_thread(self._join, herder, f"[{host}]" if ":" in host else host, port_text)
        return f"ready connect listeners={','.join(shown)} group={self._config['group.id']}"

    def _open(self) -> DistributedHerder:
        """The topics, made where they are missing and read to their ends."""
        config = self._config
        catalog = self._catalog if self._catalog is not None else Catalog(config["plugin.allowlist"])
        check_worker(config, catalog)
        providers = Providers(config.props)

        def worker_settings(kind: str) -> dict[str, str]:
            return providers.resolved(config.client(kind, {}))

        admin = self._opened(Admin(worker_settings("admin")))
        for kind, partitions in (
            ("config", 1),
            ("offset", config["offset.storage.partitions"]),
            ("status", config["status.storage.partitions"]),
        ):
            replicas = config[f"{kind}.storage.replication.factor"]
            ensure_topic(admin, config[f"{kind}.storage.topic"], partitions, replicas, topic_settings(config, kind))
        producer = self._opened(Producer({**worker_settings("producer"), "acks": "all"}))
        consumer = worker_settings("consumer")
        group = config["group.id"]
        herder: DistributedHerder | None = None

        def news(commands: list[Command]) -> None:
            if herder is not None:
                herder.news(commands)

        leading = f"connect-cluster-{group}" if leader_uses_transactions(config) else None
        topic = config["config.storage.topic"]
        configs = self._opened(ConfigStore(topic, consumer, worker_settings("producer"), admin, news, leading))
        statuses = self._opened(StatusStore(config["status.storage.topic"], consumer, producer, admin))
        offsets = self._opened(KafkaOffsetStore(config["offset.storage.topic"], consumer, producer, admin))
        for each in (configs, statuses, offsets):
            each.start()

        own = stores_of_connectors(config, consumer, producer, admin, self._opened)
        worker = TransactionalWorker(config, offsets, catalog, own)
        herder = DistributedHerder(worker, configs, statuses, self._refused, _set_level)
        if wants_slots(config, in_group=True):
            open_slots(worker, permission_answers(herder), run_slot)
        herder.leader = Leader(
            configs,
            admin,
            group,
            lambda: made.membership.is_member(),
            delay_max_ms=config["scheduled.rebalance.max.delay.ms"],
            key_ttl_ms=config["inter.worker.key.ttl.ms"],
        )
        made = herder
        self._admin, self._worker_settings, self._statuses = admin, worker_settings, statuses
        return herder

    def _opened(self, made: Any) -> Any:
        self._closing.append(made)
        return made

    def _join(self, herder: DistributedHerder, host: str, port: str) -> None:
        config = self._config
        herder.worker.worker_id = self._statuses.worker_id = f"{host}:{port}"
        herder.membership = Membership(
            Admin(self._worker_settings("admin")),
            self._admin,
            config["group.id"],
            f"{self._listeners[0].scheme}://{host}:{port}/",
            herder,
            session_timeout_ms=config["session.timeout.ms"],
            rebalance_timeout_ms=config["rebalance.timeout.ms"],
            heartbeat_interval_ms=config["heartbeat.interval.ms"],
            rebalances=herder.worker.metrics.in_group(),
        )
        self.herder = herder
        herder.peers_tls = self._peers_tls
        herder.start()
        herder.membership.start()

    def _refused(self, error: KafkaError) -> None:
        problem = UserError(
            f"The group {self._config['group.id']!r} does not take this worker",
            f"its members are workers of Apache Kafka Connect, or another kind of group: {error}",
            "A group has one kind of worker: stop those first, or choose another group.id",
        )
        self._loop.call_soon_threadsafe(self._break, problem)

    def _break(self, problem: UserError) -> None:
        if not self._broken.done():
            self._broken.set_result(problem)

    async def broken(self) -> UserError:
        return await asyncio.shield(self._broken)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        await self._forwarding.close()
        await asyncio.to_thread(self._close)
        if self._security is not None:
            await self._security.close()

    def _close(self) -> None:
        if self.herder is not None:
            self.herder.close()
        for each in reversed(self._closing):
            each.close()


def _set_level(name: str, level: str) -> None:
    try:
        set_level(name, level)
    except HttpError:
        logger.warning("event=unknown-level logger=%r level=%r", name, level)


def _between_workers(herder: DistributedHerder) -> list[Route]:
    """What the leader does for the others, for calls that are signed."""

    def checked(request: Request) -> Any:
        herder.signatures.check(request.body, request.headers.get(SIGNATURE), request.headers.get(ALGORITHM))
        return json_body(request)

    async def put_tasks(request: Request) -> Response:
        document = await asyncio.to_thread(checked, request)
        if not isinstance(document, list) or not all(_is_config(each) for each in document):
            raise HttpError(400, "The body is a list of configs of tasks")
        name = request.parameters["connector"]
        await asyncio.to_thread(herder.put_tasks, name, document)
        return Response(204)

    async def fence(request: Request) -> Response:
        await asyncio.to_thread(checked, request)
        await asyncio.to_thread(herder.fence, request.parameters["connector"])
        return Response(204)

    one = "/connectors/{connector}"
    return [
        ("POST", f"{one}/tasks", put_tasks, rights.any_login),
        ("PUT", f"{one}/fence", fence, rights.any_login),
    ]


def _is_config(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(each, str) for each in found.values())


def run_distributed(path: str | None, overrides: Sequence[str] = (), *, stop_on_eof: bool = False) -> int:
    """The exit code. `overrides`: name=value, which count before the file."""
    worker = {} if path is None else parse_properties(read_properties(path, "The worker's file"))
    settings, problem = assignments(overrides)
    if problem:
        raise UserError("Cannot read a setting", problem, "Write it as --set name=value")
    worker |= {name: value.strip() for name, value in settings.items()}
    return run_service(functools.partial(DistributedService, worker), stop_on_eof=stop_on_eof)
