"""The way of a request through the broker, without a socket: frame in, handler, frame out. No state.

The server's connections and the simulated ones both go through here, so that what the simulation tries is what runs.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import FileSlice
from headwater.broker.context import ConnectionContext, RequestContext
from headwater.broker.forwarding import forward
from headwater.broker.handlers.api_versions import unsupported_version_response
from headwater.broker.origins import FIRST_FORWARDED, FORWARDED
from headwater.broker.registry import APIS, Api
from headwater.wire.headers import decode_request_header, response_header_bytes

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_API_VERSIONS: Final = 18


class Begun(NamedTuple):
    """A request that its handler has seen."""

    api: Api
    version: int  # of the answer
    correlation_id: int
    result: Any  # a response, a Deferred, or None where the client wants no answer
    client_id: str | None = None
    is_exempt: bool = False  # from quotas: brokers among themselves

    def frame(self, response: Any) -> list[Any]:
        """Length prefix, header and body as chunks; file slices stay as they are."""
        chunks: list[Any] = response.encode(self.version)
        header = response_header_bytes(self.api.key, self.version, self.correlation_id)
        size = len(header)
        for chunk in chunks:
            size += len(chunk)
        prefix = size.to_bytes(4) + header
        if chunks and type(chunks[0]) is bytes:
            chunks[0] = prefix + chunks[0]
        else:
            chunks.insert(0, prefix)
        return chunks


AUDITED: Final = frozenset((19, 20, 30, 31, 33, 37, 44, 49, 51))  # what administrators change (broker/audit/changes.py)


def begin(broker: "Broker", connection: ConnectionContext, frame: memoryview) -> Begun:
    """Decodes a frame (behind its length) and hands it to its handler. A KafkaError ends the connection."""
    header = decode_request_header(frame)
    api = APIS.get(header.api_key)
    if api is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown API key {header.api_key}")
    version = header.api_version
    if not api.serves[0] <= version <= api.serves[1]:
        if api.key == _API_VERSIONS:
            return Begun(api, 0, header.correlation_id, unsupported_version_response())
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{api.name} version {version} is not served")
    if api.decode is None or api.handle is None:
        api.load()
        assert api.decode is not None
        assert api.handle is not None
    request = api.decode(frame, header.body_at, version)
    context = RequestContext(connection, api.key, version, header.client_id)
    if api.key in AUDITED:
        from headwater.broker.audit.changes import audited  # not at start-up

        begun = _begin(broker, context, api, request, header.correlation_id)
        return begun._replace(result=audited(broker, context, request, begun.result))
    return _begin(broker, context, api, request, header.correlation_id)


def _begin(broker: "Broker", context: RequestContext, api: Api, request: Any, correlation_id: int) -> Begun:
    """The rest of it, for whoever asks: with quotas, with rights, or with neither."""
    assert api.handle is not None
    version = context.api_version
    if context.connection.meter is not None:
        return _metered(broker, context, api, request, correlation_id)
    if broker.authorizer is not None:
        return Begun(api, version, correlation_id, _guarded(broker, context, api, request))
    if api.key >= FIRST_FORWARDED and broker.peers is not None and api.key in FORWARDED:
        return Begun(api, version, correlation_id, forward(broker, context, request, api.handle))
    return Begun(api, version, correlation_id, api.handle(broker, context, request))


def _metered(broker: "Broker", context: RequestContext, api: Api, request: Any, correlation_id: int) -> Begun:
    """As `begin`, where quotas may hold for whoever asks."""
    from headwater.broker.quotas.exemptions import is_between_brokers

    assert api.handle is not None
    is_exempt = is_between_brokers(broker, context, request)
    if broker.authorizer is not None:
        result = _guarded(broker, context, api, request)
    elif api.key in FORWARDED and broker.peers is not None:
        result = forward(broker, context, request, api.handle)
    else:
        result = api.handle(broker, context, request)
    return Begun(api, context.api_version, correlation_id, result, context.client_id, is_exempt)


def _guarded(broker: "Broker", context: RequestContext, api: Api, request: Any) -> Any:
    """The answer, as far as the rights of whoever asks go."""
    from headwater.broker.rights.guards import guarded  # only where rights are checked

    assert broker.authorizer is not None
    assert api.handle is not None
    handle = api.handle
    if api.key in FORWARDED and broker.peers is not None:
        return guarded(
            broker, broker.authorizer, context, api, request, lambda: forward(broker, context, request, handle)
        )
    return guarded(broker, broker.authorizer, context, api, request, lambda: handle(broker, context, request))


def release_response(response: Any) -> None:
    """Lets go of the files of a response that nobody will send."""
    from headwater.wire.messages.fetch import FetchResponse  # rare; not at start-up

    if isinstance(response, FetchResponse):
        for topic in response.responses:
            for part in topic.partitions:
                if isinstance(part.records, FileSlice):
                    part.records.release()
