"""Interactive queries over HTTP: `GET /stores/counts/get?key=apple`, of one host or of the whole application.

    GET /                                application, hosts and the partitions of each store that they hold
    GET /stores                          name, kind, serdes and partitions of each store
    GET /stores/{store}/{operation}?...  see `store_query`; `scope=local` asks this host alone

Every request needs the run's secret: `Authorization: Bearer ...`; where the door has a login, a user who may READ the
application's group will do. Answers show the last commit. Where other hosts hold partitions of the store, they are
asked with the same secret and the rows merged, by partition; a partition that nobody holds at the moment is a 503,
never an answer with a hole in it. So a host says of which partitions its own answer is (`X-Headwater-Partitions`): one
of those that it is asked for may have left it since.
"""

import asyncio
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import lmdb

from headwater.base.acls import Operation
from headwater.client.partitioner import partition_for_key
from headwater.streams.query.answers import Found, Row, answer
from headwater.streams.query.directory import Directory, Host, partitions_here
from headwater.streams.query.readable import NotReady, Readable, store_names, store_plan
from headwater.streams.query.store_query import BadStoreQuery, StoreQuery, encode, parse
from headwater.streams.stores.state import StateClosed
from headwater.streams.topology.stores import StorePlan
from headwater.web.callers import group
from headwater.web.client import HttpClient, HttpClientError
from headwater.web.door import Door
from headwater.web.messages import HttpError, Request, Response
from headwater.web.rights import require
from headwater.web.router import Router

NO_SUCH_KEY: Final = 40401
NO_SUCH_STORE: Final = 40402
_PEER_TIMEOUT_S: Final = 30.0
PARTITIONS_HEADER: Final = "X-Headwater-Partitions"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class QueryDoor:
    """Owned by the loop that serves it; `tasks` is asked for each request, and gives what this host has at that
    moment.
    """

    def __init__(
        self,
        application: str,
        tasks: Callable[[], Sequence[Readable]],
        directory: Directory,
        url: str,
        token: str,
        known: Callable[[str], tuple[Readable, StorePlan] | None] = lambda _: None,
        names: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`known`: a store by its name, where plans and serdes are known though the tasks are elsewhere. `names`: all
        that are known so.
        """
        self._known, self._names = known, names
        self._application = application
        self._tasks = tasks
        self._directory = directory
        self.url = url
        self._expected = f"Bearer {token}".encode()
        self._peers = HttpClient()
        router = Router()
        router.add("GET", "/", self._describe)
        router.add("GET", "/stores", self._list)
        router.add("GET", "/stores/{store}/{operation}", self._query)
        self._door = Door(router)

    async def handle(self, request: Request) -> Response:
        if not request.caller.may_everything:
            await require(request.caller, group(Operation.READ, self._application))
        elif not self.has_secret(request):
            raise HttpError(401, "The secret of this run is needed: Authorization: Bearer ...", code=40101)
        try:
            return await self._door.handle(request)
        except NotReady as problem:
            raise HttpError(503, problem.what, headers={"Retry-After": "1"}) from None

    def has_secret(self, request: Request) -> bool:
        given = (request.headers.get("authorization") or "").encode("latin-1", "replace")
        return hmac.compare_digest(given, self._expected)

    def on_error(self, error: HttpError, request: Request | None) -> Response:
        return self._door.on_error(error, request)

    async def close(self) -> None:
        await self._peers.close()

    async def _describe(self, _request: Request) -> Response:
        hosts = [Host(self.url, partitions_here(self._tasks())), *self._directory.others()]
        listed = [{"url": host.url, "stores": {n: list(p) for n, p in host.stores.items()}} for host in hosts]
        return _json({"application": self._application, "hosts": listed})

    async def _list(self, _request: Request) -> Response:
        tasks = self._tasks()
        rows = []
        for name in self._all_names(tasks):
            here = ((task, plan) for task in tasks if (plan := store_plan(task, name)) is not None)
            found = next(here, None) or self._known(name)
            assert found is not None, name
            task, plan = found
            key, value = plan.key or task.settings.key, plan.value or task.settings.value
            rows.append(
                {
                    "name": name,
                    "kind": plan.spec.kind.value,
                    "key": key.name,
                    "value": value.name,
                    "partitions": self._directory.partitions(name),
                }
            )
        return _json({"stores": rows})

    def _all_names(self, tasks: Sequence[Readable]) -> list[str]:
        return sorted({*store_names(tasks), *self._names()})

    async def _query(self, request: Request) -> Response:
        name = request.parameters["store"]
        tasks = self._tasks()
        here = [(task, plan) for task in tasks if (plan := store_plan(task, name)) is not None]
        others = [host for host in self._directory.others() if name in host.stores]
        if not here and not others:
            if self._directory.partitions(name):
                raise NotReady(f"Nobody holds {name} now", "its tasks are being opened", "")
            known = ", ".join(self._all_names(tasks)) or "none"
            raise HttpError(404, f"There is no store {name[:100]!r}; these are there: {known}", code=NO_SUCH_STORE)
        given = dict(request.query)
        local = given.pop("scope", "") == "local"
        if not here and (known_here := self._known(name)) is not None:
            query = self._parse(request.parameters["operation"], given, known_here)
            return self._finish(query, await self._routed(name, request, query, known_here, others))
        if not here:  # its serdes are known where it is
            return await self._ask(others[0], request, scope="")
        query = self._parse(request.parameters["operation"], given, here[0])
        is_value = query.operation.gives == "value"
        partitions = self._directory.partitions(name) if local and is_value and len(here) > 1 else 0
        found = self._answer(here, query, partitions)
        if local:
            mine = ",".join(str(task.partition) for task, _ in here)
            return self._finish(query, found, {PARTITIONS_HEADER: mine})
        if not (is_value and found.rows):
            found = await self._with_others(name, request, here, others, found)
        return self._finish(query, found)

    async def _routed(
        self,
        name: str,
        request: Request,
        query: StoreQuery,
        known: tuple[Readable, StorePlan],
        others: Sequence[Host],
    ) -> Found:
        """By key: of the host where the default partitioner puts the key; of all others if nothing is there."""
        if query.operation.gives == "value":
            task, plan = known
            key = (plan.key or task.settings.key).serialize(query.key)
            partition = partition_for_key(key, self._directory.partitions(name))
            owner = next((host for host in others if partition in host.stores[name]), None)
            if owner is not None:
                answer = await self._ask_own(owner, request, name)
                if answer.status == 200:
                    assert isinstance(answer.body, bytes)
                    return Found([json.loads(answer.body)])
        return await self._with_others(name, request, (), others, Found([]))

    def _parse(self, operation: str, given: dict[str, str], here: tuple[Readable, StorePlan]) -> StoreQuery:
        task, plan = here
        try:
            return parse(plan.spec.kind, operation, given, plan.key or task.settings.key)
        except BadStoreQuery as problem:
            raise HttpError(400, str(problem)) from None

    def _answer(self, here: Sequence[tuple[Readable, StorePlan]], query: StoreQuery, partitions: int) -> Found:
        try:
            return answer(here, query, partitions)
        except (lmdb.Error, StateClosed) as problem:  # its state was closed or made anew between two steps of this one
            raise HttpError(503, f"The state is being opened: {problem}", headers={"Retry-After": "1"}) from None

    async def _with_others(
        self,
        name: str,
        request: Request,
        here: Sequence[tuple[Readable, StorePlan]],
        others: Sequence[Host],
        found: Found,
    ) -> Found:
        held = {task.partition for task, _ in here} | {part for host in others for part in host.stores[name]}
        missing = sorted(set(range(self._directory.partitions(name))) - held)
        if missing:
            raise _on_their_way(name, missing)
        if not others:
            return found
        answers = await asyncio.gather(*(self._ask_own(host, request, name) for host in others))
        rows, truncated = [*found.rows], found.truncated
        for each in answers:
            assert isinstance(each.body, bytes)
            if each.status == 200:
                document = json.loads(each.body)
                rows += document["rows"] if "rows" in document else document.get("counts", [document])
                truncated = truncated or document.get("truncated", False) is True
        return Found(sorted(rows, key=_partition), truncated)

    async def _ask_own(self, host: Host, request: Request, name: str) -> Response:
        """Of all partitions of the store that the host is known to hold."""
        answer = await self._ask(host, request, scope="local")
        told = answer.headers.get(PARTITIONS_HEADER, "").split(",")
        missing = sorted(part for part in host.stores[name] if str(part) not in told)
        if missing:
            raise _on_their_way(name, missing)
        return answer

    async def _ask(self, host: Host, request: Request, scope: str) -> Response:
        """The answer of another host; what it cannot answer, this one cannot either."""
        parameters = f"{request.query_string}&scope={scope}" if scope else request.query_string
        target = request.target.partition("?")[0]
        try:
            found = await self._peers.request(
                "GET",
                f"{host.url}{target}?{parameters}",
                headers={"Authorization": self._expected.decode()},
                timeout_s=_PEER_TIMEOUT_S,
            )
        except HttpClientError as problem:
            raise HttpError(503, f"A host of the application does not answer: {problem}") from None
        document = json.loads(found.body) if found.body else {}
        if found.status != 200 and document.get("error_code") != NO_SUCH_KEY:
            raise HttpError(found.status, str(document.get("message", "")), code=document.get("error_code"))
        told = found.headers.get(PARTITIONS_HEADER)
        of_partitions = {} if told is None else {PARTITIONS_HEADER: told}
        return Response(found.status, found.body, {"Content-Type": "application/json", **of_partitions})

    def _finish(self, query: StoreQuery, found: Found, headers: Mapping[str, str] = NO_HEADERS) -> Response:
        rows = found.rows
        match query.operation.gives:
            case "count":
                return _json({"count": sum(row["count"] for row in rows), "counts": rows}, headers)
            case "value":
                if not rows:
                    raise HttpError(404, "There is nothing under this key", code=NO_SUCH_KEY, headers=headers)
                return _json(rows[0], headers)
        truncated = found.truncated or len(rows) > query.limit
        return _json({"rows": rows[: query.limit], "truncated": truncated}, headers)


def _partition(row: Row) -> int:
    return int(row["partition"])


def _on_their_way(name: str, partitions: list[int]) -> HttpError:
    return HttpError(
        503,
        f"Nobody holds partitions {partitions} of {name} now: they are on their way to another host",
        headers={"Retry-After": "1"},
    )


def _json(document: Any, headers: Mapping[str, str] = NO_HEADERS) -> Response:
    return Response(200, encode(document), {"Content-Type": "application/json", **headers})
