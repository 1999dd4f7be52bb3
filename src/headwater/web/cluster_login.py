"""The one login of all HTTP doors: whoever calls is logged in at the brokers with what he shows, and the brokers say
what he may do.

So the users are the cluster's own: SCRAM credentials of its metadata, users that `sasl.jaas.config` lists for PLAIN,
and tokens that its OAUTHBEARER validators take; and the rights are its access rules, told by the authorized operations
of Metadata, DescribeCluster and DescribeGroups. A door keeps no password file and no rules, and works in front of
Apache Kafka as well.

A login is kept for `_LOGIN_S`, and used again for who shows the same, also while it is renewed, which begins before its
end; answers about rights are kept for `_RIGHTS_S`. What was shown is kept as a keyed hash, beside the connection that
needs the secret itself to come back after a broker went away. At most so many logins are kept, and so few are under way
at a time: whoever tries passwords waits in line (`PendingLogins`), and the brokers delay each answer besides; who has
logged in before waits in a line of its own. Owned by the door's loop.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from headwater.base.acls import Operation, ResourceType
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import is_legal_topic_name
from headwater.base.security.sasl_client import Credentials
from headwater.client.errors import NotTrusted
from headwater.client.reactor.aio import AioEngine
from headwater.client.session import KeyType, Session, SessionSettings
from headwater.client.settings.admin import read_admin_settings
from headwater.web.callers import Need, cluster
from headwater.web.messages import HttpError
from headwater.web.pending_logins import PendingLogins, Place
from headwater.web.presented import Presented, Scheme
from headwater.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

logger = logging.getLogger("headwater.security")

_LOGIN_S: Final = 60.0
_RIGHTS_S: Final = 2.0
_RETIRED_S: Final = 130.0  # longer than a request may take
_LOGINS_KEPT_MAX: Final = 200
_LOGINS_UNDER_WAY_MAX: Final = 8
_RENEWED_BEFORE_S: Final = 20.0
_RENEWED_AGAIN_S: Final = 5.0
_DEADLINE_S: Final = 30.0  # of one login, with its wait in line
_KEYS_KNOWN_MAX: Final = 1000
_ANSWERS_BYTES_MAX: Final = 500_000  # of one caller, about
_ANSWER_BYTES: Final = 200  # beside the name
_TOPICS_PER_REQUEST: Final = 2000
_GROUP_VERSION_MAX: Final = 5  # from 6 on a group that is not there is answered without its operations
_NOT_TOLD: Final = -(2**31)
_NAMELESS_OPERATIONS: Final = {  # of what no topic could be called: the rights on the cluster count
    Operation.DESCRIBE: Operation.DESCRIBE,
    Operation.READ: Operation.DESCRIBE,
}


class LoginRefused(Exception):
    """Who calls is not who he says. The reason is the log's alone."""


class ClusterCaller:
    """One who has logged in. Owned by a `ClusterLogin`."""

    may_everything = False

    def __init__(self, name: str, engine: AioEngine, session: Session, now_s: float) -> None:
        self.name = name
        self.until_s = now_s + _LOGIN_S
        self.renew_s = self.until_s - _RENEWED_BEFORE_S
        self._engine = engine
        self._session = session
        self._known: dict[Need, tuple[float, bool]] = {}
        self._known_bytes = 0

    async def allowed(self, needs: Iterable[Need]) -> frozenset[Need]:
        wanted = frozenset(needs)
        now_s = time.monotonic()
        kept = {need: self._known[need] for need in wanted if need in self._known}
        have = {need: allowed for need, (until_s, allowed) in kept.items() if until_s > now_s}
        unknown = [need for need in wanted if need not in have]
        if unknown:
            try:
                found = await self._ask(unknown)
            except NotTrusted as problem:
                raise unreachable(problem) from None
            except KafkaError as problem:
                if problem.code == ErrorCode.SASL_AUTHENTICATION_FAILED:
                    raise LoginRefused(str(problem)) from None
                raise unreachable(problem) from None
            have |= {need: need in found for need in unknown}
            self._keep({need: have[need] for need in unknown}, time.monotonic())
        return frozenset(need for need, allowed in have.items() if allowed)

    def _keep(self, answers: Mapping[Need, bool], now_s: float) -> None:
        """What there is no room for is asked again. Names are a peer's:
        their bytes are bounded, not only their number.
        """
        size = sum(_size(need) for need in answers if need not in self._known)
        if self._known_bytes + size > _ANSWERS_BYTES_MAX:
            self._known = {need: answer for need, answer in self._known.items() if answer[0] > now_s}
            self._known_bytes = sum(map(_size, self._known))
        if self._known_bytes + size > _ANSWERS_BYTES_MAX:
            self._known, self._known_bytes = {}, 0
        for need, allowed in answers.items():
            if need not in self._known:
                if self._known_bytes + _size(need) > _ANSWERS_BYTES_MAX:
                    continue
                self._known_bytes += _size(need)
            self._known[need] = (now_s + _RIGHTS_S, allowed)

    async def _ask(self, needs: list[Need]) -> set[Need]:
        """In the words of the brokers' answers: one request for the cluster, one for many topics, one
        for each group.
        """
        asked = {need: _asked(need) for need in needs}
        topics = sorted({each.name for each in asked.values() if each.resource == ResourceType.TOPIC})
        groups = sorted({each.name for each in asked.values() if each.resource == ResourceType.GROUP})
        masks: dict[tuple[int, str], int] = {}
        if any(each.resource == ResourceType.CLUSTER for each in asked.values()):
            masks[ResourceType.CLUSTER, cluster(Operation.ALL).name] = await self._of_cluster()
        for first in range(0, len(topics), _TOPICS_PER_REQUEST):
            masks |= await self._of_topics(topics[first : first + _TOPICS_PER_REQUEST])
        for name in groups:
            masks[ResourceType.GROUP, name] = await self._of_group(name)
        return {
            need
            for need, each in asked.items()
            if masks.get((each.resource, each.name), 0) & (1 << int(each.operation))
        }

    async def _of_cluster(self) -> int:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await self._engine.run(self._session.call_any(request, DescribeClusterResponse))
        return _mask(answer.cluster_authorized_operations, answer.error_code)

    async def _of_topics(self, names: list[str]) -> dict[tuple[int, str], int]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = await self._engine.run(self._session.call_any(request, MetadataResponse))
        return {
            (ResourceType.TOPIC, topic.name): _mask(topic.topic_authorized_operations, topic.error_code)
            for topic in answer.topics
            if topic.name is not None
        }

    async def _of_group(self, name: str) -> int:
        request = DescribeGroupsRequest(groups=[name], include_authorized_operations=True)
        call = self._session.call_coordinator(
            name,
            KeyType.GROUP,
            request,
            DescribeGroupsResponse,
            lambda answer: answer.groups[0].error_code,
            at_most=_GROUP_VERSION_MAX,
        )
        try:
            group = (await self._engine.run(call)).groups[0]
        except KafkaError as problem:
            if problem.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                return 0
            raise
        return _mask(group.authorized_operations, group.error_code)

    def close(self) -> None:
        self._engine.submit(self._session.close)


def _size(need: Need) -> int:
    return _ANSWER_BYTES + 4 * len(need.name)


def _asked(need: Need) -> Need:
    """What to ask the brokers about. A name that no topic could have is the cluster's business."""
    if need.resource == ResourceType.TOPIC and not is_legal_topic_name(need.name):
        return cluster(_NAMELESS_OPERATIONS.get(need.operation, Operation.ALTER))
    return need


def _mask(operations: int, error_code: int) -> int:
    """Operations are told of what there is not, too: rules may be about it. Any other error is a refusal."""
    harmless = (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.LEADER_NOT_AVAILABLE)
    return 0 if error_code not in harmless or operations == _NOT_TOLD else operations


def unreachable(problem: KafkaError) -> HttpError:
    logger.warning("event=brokers-not-reached reason=%.300r", str(problem))
    return HttpError(503, "The brokers, which know who may log in, cannot be reached")


class ClusterLogin:
    """`settings` are those of a client: where the brokers are, and TLS. Raises UserError for what cannot work. Made in
    a running loop.
    """

    def __init__(self, settings: Mapping[str, Any], mechanisms: Iterable[str]) -> None:
        base = {name: value for name, value in settings.items() if not name.startswith("sasl.")}
        protocol = "SSL" if base["security.protocol"] == "SASL_SSL" else "PLAINTEXT"  # the login is each caller's own
        wanted = read_admin_settings({**base, "security.protocol": protocol}, {})
        self._settings = wanted.session
        self._engine = AioEngine(wanted.network())
        self._mechanisms = list(mechanisms)
        self._secret = os.urandom(32)
        self._kept: OrderedDict[bytes, ClusterCaller] = OrderedDict()
        self._retired: list[ClusterCaller] = []  # their requests may be under way
        self._under_way: dict[bytes, asyncio.Task[ClusterCaller]] = {}
        self._known: OrderedDict[bytes, None] = OrderedDict()  # keys that have logged in
        self._pending = PendingLogins()
        self._turns = asyncio.Semaphore(_LOGINS_UNDER_WAY_MAX)
        self._turns_of_known = asyncio.Semaphore(_LOGINS_UNDER_WAY_MAX)

    async def caller(self, shown: Presented, peer: str = "") -> ClusterCaller:
        """`peer`: `host:port` of who shows it. Raises LoginRefused, or HttpError where nobody can say."""
        key = self._key(shown)
        known = self._kept.get(key)
        now_s = time.monotonic()
        if known is None or known.until_s <= now_s:
            return await asyncio.shield(self._under_way.get(key) or self._begin(key, shown, peer))
        self._kept.move_to_end(key)
        if known.renew_s <= now_s and key not in self._under_way:
            known.renew_s = now_s + _RENEWED_AGAIN_S
            self._begin(key, shown, peer)
        return known

    def _begin(self, key: bytes, shown: Presented, peer: str) -> asyncio.Task[ClusterCaller]:
        """Raises HttpError where too many wait."""
        is_known = key in self._known
        place = None if is_known else self._pending.enter(peer, shown.user)
        task = asyncio.create_task(self._log_in(key, shown, self._turns_of_known if is_known else self._turns))
        self._under_way[key] = task
        task.add_done_callback(lambda done: self._ended(key, done, place))
        return task

    def forget(self, shown: Presented) -> None:
        """The brokers do not take it any more."""
        self._forget(self._key(shown))

    def _forget(self, key: bytes) -> None:
        self._known.pop(key, None)
        self._drop(key)

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for caller in [*self._kept.values(), *self._retired]:
            caller.close()
        self._kept.clear()
        self._retired.clear()
        self._engine.close()

    def _key(self, shown: Presented) -> bytes:
        text = "\0".join((shown.scheme, shown.user, shown.secret))
        return hmac.digest(self._secret, text.encode(), hashlib.sha256)

    def _ended(self, key: bytes, task: asyncio.Task[ClusterCaller], place: Place | None) -> None:
        self._under_way.pop(key, None)
        if place is not None:
            self._pending.leave(place)
        if not task.cancelled() and isinstance(task.exception(), LoginRefused):
            self._forget(key)  # whoever waited was told; who has gone away need not be

    def _drop(self, key: bytes) -> None:
        caller = self._kept.pop(key, None)
        if caller is not None:
            self._retired.append(caller)
            asyncio.get_running_loop().call_later(_RETIRED_S, self._close_retired, caller)

    def _close_retired(self, caller: ClusterCaller) -> None:
        if caller in self._retired:
            self._retired.remove(caller)
            caller.close()

    async def _log_in(self, key: bytes, shown: Presented, turns: asyncio.Semaphore) -> ClusterCaller:
        try:
            async with asyncio.timeout(_DEADLINE_S), turns:
                session = await self._session(shown)
        except TimeoutError:
            raise HttpError(503, "The brokers, which know who may log in, take too long") from None
        caller = ClusterCaller(_name(shown), self._engine, session, time.monotonic())
        self._drop(key)
        self._kept[key] = caller
        while len(self._kept) > _LOGINS_KEPT_MAX:
            self._drop(next(iter(self._kept)))
        self._known[key] = None
        self._known.move_to_end(key)
        while len(self._known) > _KEYS_KNOWN_MAX:
            self._known.popitem(last=False)
        return caller

    async def _session(self, shown: Presented) -> Session:
        """One that is logged in, by the first mechanism that takes it."""
        refusal = ""
        for mechanism in self._mechanisms_for(shown):
            session = Session(self._engine.kernel, self._engine.network, self._with(_credentials(mechanism, shown)))
            try:
                await self._engine.run(session.refresh())
            except KafkaError as problem:
                self._engine.submit(session.close)
                if problem.code != ErrorCode.SASL_AUTHENTICATION_FAILED or isinstance(problem, NotTrusted):
                    raise unreachable(problem) from None
                refusal = str(problem)
                continue
            except BaseException:
                self._engine.submit(session.close)
                raise
            self._worked(mechanism)
            return session
        raise LoginRefused(refusal or f"nobody logs in by {shown.scheme} here")

    def _mechanisms_for(self, shown: Presented) -> list[str]:
        is_token = shown.scheme is Scheme.BEARER
        return [each for each in self._mechanisms if (each == "OAUTHBEARER") == is_token]

    def _worked(self, mechanism: str) -> None:
        """It is tried first from now on: most users of a cluster log in the same way."""
        self._mechanisms.remove(mechanism)
        self._mechanisms.insert(0, mechanism)

    def _with(self, credentials: Credentials) -> SessionSettings:
        return replace(self._settings, credentials=credentials)


def _credentials(mechanism: str, shown: Presented) -> Credentials:
    if shown.scheme is Scheme.BEARER:
        return Credentials(mechanism, token=lambda: shown.secret)
    return Credentials(mechanism, shown.user, shown.secret)


def _name(shown: Presented) -> str:
    """Of a token, whose it says that it is: the brokers have believed it."""
    if shown.scheme is Scheme.BASIC:
        return shown.user
    try:
        claims = shown.secret.split(".")[1]
        return str(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"])[:200]
    except (ValueError, KeyError, IndexError, TypeError):
        return "(token)"
