"""The registry's REST API: which request is which decision. No state of its own.

Every answer and every error is JSON in the content type that the client prefers of Confluent's three.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from headwater._version import VERSION
from headwater.registry import errors, rights
from headwater.registry.contexts import rewritten
from headwater.registry.decisions import deleting, reading, registering, settings, tagging
from headwater.registry.decisions.documents import SchemaRequest, schema_document, schema_request
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.steps import Decision, Page, Steps
from headwater.registry.decisions.tag_changes import modification, tag_change
from headwater.registry.node import RegistryNode
from headwater.registry.state import State, Version
from headwater.registry.subjects import beside, normalized, parse_subject
from headwater.web.content import json_body, json_response, negotiate
from headwater.web.door import Door
from headwater.web.messages import HttpError, Request, Response
from headwater.web.origin import check_origin, media_type
from headwater.web.router import Router

CONTENT_TYPES: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_BODIES: Final = (*CONTENT_TYPES, "application/octet-stream")  # as Confluent's registry has it
_NO_CONTENT: Final = 204

Answer = Callable[[Request], Awaitable[Any]]


def make_door(node: RegistryNode) -> "RegistryDoor":
    return RegistryDoor(node)


def _error_body(error: HttpError, request: Request | None) -> Response:
    content_type = negotiate(request.headers.get("accept"), CONTENT_TYPES) if request is not None else None
    document = {"error_code": error.code, "message": error.message}
    return json_response(document, error.status, content_type or CONTENT_TYPES[0], error.headers)


class RegistryDoor(Door):
    def __init__(self, node: RegistryNode) -> None:
        super().__init__(_router(Api(node)), _error_body)
        self._node = node

    async def handle(self, request: Request) -> Response:
        check_origin(request)
        if request.body:
            _check_media_type(request)
        return await super().handle(rewritten(request, self._node.state))


def _check_media_type(request: Request) -> None:
    """What a page of another origin could send without asking first (text, forms) is refused."""
    kind = media_type(request)
    if kind in _BODIES or (kind == "" and request.headers.get("origin") is None):
        return
    raise HttpError(415, "HTTP 415 Unsupported Media Type", 415)


def _router(api: "Api") -> Router:
    router = Router()
    versions = "/subjects/{subject}/versions"
    # The rights stand beside each call: one without them cannot be added.
    for method, pattern, answer, guard in (
        ("GET", "/", api.root, rights.any_login),
        ("POST", "/", api.root, rights.any_login),
        ("GET", "/schemas", api.schemas, rights.any_login),
        ("GET", "/schemas/types", api.types, rights.any_login),
        ("GET", "/schemas/ids/{id}", api.schema_by_id, rights.any_login),
        ("GET", "/schemas/ids/{id}/schema", api.text_by_id, rights.any_login),
        ("GET", "/schemas/ids/{id}/subjects", api.subjects_of_id, rights.any_login),
        ("GET", "/schemas/ids/{id}/versions", api.versions_of_id, rights.any_login),
        ("GET", "/schemas/guids/{guid}", api.schema_by_guid, rights.any_login),
        ("GET", "/schemas/guids/{guid}/ids", api.ids_of_guid, rights.any_login),
        ("GET", "/subjects", api.subjects, rights.any_login),
        ("POST", "/subjects/{subject}", api.lookup, rights.READ),
        ("DELETE", "/subjects/{subject}", api.delete_subject, rights.DELETE),
        ("GET", "/subjects/{subject}/metadata", api.latest_with_metadata, rights.READ),
        ("GET", versions, api.versions, rights.READ),
        ("POST", versions, api.register, rights.registration),
        ("GET", versions + "/{version}", api.version, rights.READ),
        ("DELETE", versions + "/{version}", api.delete_version, rights.DELETE),
        ("GET", versions + "/{version}/schema", api.text_of_version, rights.READ),
        ("GET", versions + "/{version}/referencedby", api.referenced_by, rights.READ),
        ("POST", versions + "/{version}/tags", api.tags, rights.registration),
        ("POST", "/compatibility" + versions, api.compatible_with_all, rights.READ),
        ("POST", "/compatibility" + versions + "/{version}", api.compatible_with, rights.READ),
        ("GET", "/config", api.config, rights.READ_ALL_SETTINGS),
        ("PUT", "/config", api.set_config, rights.CHANGE_ALL_SETTINGS),
        ("DELETE", "/config", api.delete_config, rights.CHANGE_ALL_SETTINGS),
        ("GET", "/config/{subject}", api.config, rights.READ_SETTINGS),
        ("PUT", "/config/{subject}", api.set_config, rights.CHANGE_SETTINGS),
        ("DELETE", "/config/{subject}", api.delete_config, rights.CHANGE_SETTINGS),
        ("GET", "/mode", api.mode, rights.READ_ALL_SETTINGS),
        ("PUT", "/mode", api.set_mode, rights.CHANGE_ALL_SETTINGS),
        ("DELETE", "/mode", api.delete_mode, rights.CHANGE_ALL_SETTINGS),
        ("GET", "/mode/{subject}", api.mode, rights.READ_SETTINGS),
        ("PUT", "/mode/{subject}", api.set_mode, rights.CHANGE_SETTINGS),
        ("DELETE", "/mode/{subject}", api.delete_mode, rights.CHANGE_SETTINGS),
        ("GET", "/contexts", api.contexts, rights.READ_ALL_SETTINGS),
        ("DELETE", "/contexts/{context}", api.delete_context, rights.CHANGE_ALL_SETTINGS),
        ("GET", "/associations/resources/{namespace}/{resource}", api.associations, rights.any_login),
        ("GET", "/associations/resources/{resource}", api.associations, rights.any_login),
        ("GET", "/associations/subjects/{resource}", api.associations, rights.any_login),
        ("PUT", "/associations/resources/{resource}", api.change_associations, rights.any_login),
        ("DELETE", "/associations/resources/{resource}", api.change_associations, rights.any_login),
        ("POST", "/associations", api.change_associations, rights.any_login),
        ("POST", "/associations:batch", api.change_associations, rights.any_login),
        ("POST", "/associations:batchGet", api.change_associations, rights.any_login),
        ("POST", "/associations:batchMutate", api.change_associations, rights.any_login),
        ("GET", "/v1/metadata/id", api.cluster, rights.any_login),
        ("GET", "/v1/metadata/version", api.software, rights.any_login),
        ("GET", "/v1/metadata/deployment", api.deployment, rights.any_login),
    ):
        router.add(method, pattern, _as_json(rights.guarded(guard, answer)))
    return router


def _as_json(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def handler(request: Request) -> Response:
        content_type = negotiate(request.headers.get("accept"), CONTENT_TYPES)
        if content_type is None:
            raise HttpError(406, "HTTP 406 Not Acceptable")
        result = await answer(request)
        if isinstance(result, Response):
            return result
        document, headers = result if isinstance(result, tuple) else (result, {})
        if document is None:
            return Response(_NO_CONTENT, b"", headers)
        return json_response(document, 200, content_type, headers)

    return handler


class Api:
    def __init__(self, node: RegistryNode) -> None:
        self._node = node

    # Schemas

    async def root(self, _request: Request) -> Any:
        return {}

    async def types(self, _request: Request) -> Any:
        return ["JSON", "PROTOBUF", "AVRO"]

    async def schemas(self, request: Request) -> Any:
        query = request.query
        aliases = query.boolean("aliases")
        return reading.list_schemas(
            self._node.state,
            query.get("subjectPrefix") or ":*:",
            self._page(request, "schema"),
            deleted=query.boolean("deleted"),
            latest_only=query.boolean("latestOnly"),
            rule_type=query.get("ruleType") or "",
            aliases=aliases,
            visible=await self._visible(request, aliases=aliases),
        )

    async def schema_by_id(self, request: Request) -> Any:
        subject = request.query.get("subject") or None
        version = await self._version_with_id(request)
        text = await self._formatted(request, version)
        more = await self._more(request, version)
        max_id = self._node.state.max_ids.get(parse_subject(subject or "").context, 0)
        wanted = max_id if request.query.boolean("fetchMaxId") else None
        return reading.id_document(version, subject, text, wanted) | more

    async def text_by_id(self, request: Request) -> Any:
        version = await self._version_with_id(request)
        return self._text(request, await self._formatted(request, version))

    async def subjects_of_id(self, request: Request) -> Any:
        found = await self._versions_of_id(request)
        return self._page(request, "subject").of(list(dict.fromkeys(each.subject for each in found)))

    async def versions_of_id(self, request: Request) -> Any:
        found = [{"subject": each.subject, "version": each.version} for each in await self._versions_of_id(request)]
        return self._page(request, "subject_version").of(found)

    async def _versions_of_id(self, request: Request) -> list[Version]:
        query = request.query
        found = reading.versions_with_id(
            self._node.state, _id(request), query.get("subject"), deleted=query.boolean("deleted")
        )
        visible = await rights.visible_of(request.caller, [each.subject for each in found])
        seen = [each for each in found if visible(each.subject)]
        if found and not seen:
            raise errors.schema_not_found()
        return seen

    async def _version_with_id(self, request: Request) -> Version:
        """One that the caller may see: within a context, all versions of an id are the same schema."""
        id_, subject = _id(request), request.query.get("subject") or None
        found = reading.version_with_id(self._node.state, id_, subject)
        if request.caller.may_everything:
            return found
        same = [found, *self._node.state.with_id(parse_subject(found.subject).context, id_)]
        visible = await rights.visible_of(request.caller, [each.subject for each in same])
        seen = [each for each in same if visible(each.subject)]
        if not seen:
            raise errors.schema_not_found(id_)
        return seen[0]

    async def _visible(self, request: Request, *, aliases: bool = False) -> Callable[[str], bool]:
        """`aliases`: also which names that have settings only."""
        state = self._node.state
        configured = (each for each in state.configs if each is not None) if aliases else ()
        return await rights.visible_of(request.caller, [*state.subjects, *configured])

    async def schema_by_guid(self, request: Request) -> Any:
        version = reading.version_with_guid(self._node.state, request.parameters["guid"], await self._visible(request))
        return reading.id_document(version, None, await self._formatted(request, version), None)

    async def ids_of_guid(self, request: Request) -> Any:
        return reading.ids_of_guid(self._node.state, request.parameters["guid"], await self._visible(request))

    # Subjects

    async def subjects(self, request: Request) -> Any:
        query = request.query
        return reading.list_subjects(
            self._node.state,
            query.get("subjectPrefix") or ":*:",
            self._page(request, "subject"),
            deleted=query.boolean("deleted"),
            deleted_only=query.boolean("deletedOnly"),
            visible=await self._visible(request),
        )

    async def versions(self, request: Request) -> Any:
        query = request.query
        return reading.list_versions(
            self._node.state,
            _subject(request),
            self._page(request, "subject_version"),
            deleted=query.boolean("deleted"),
            deleted_only=query.boolean("deletedOnly"),
            deleted_as_negative=query.boolean("deletedAsNegative"),
        )

    async def version(self, request: Request) -> Any:
        version = self._version(request)
        document = schema_document(version, await self._formatted(request, version))
        return document | await self._more(request, version)

    async def text_of_version(self, request: Request) -> Any:
        return self._text(request, await self._formatted(request, self._version(request)))

    def _version(self, request: Request) -> Version:
        number = reading.parse_version(request.parameters["version"])
        return reading.one_version(
            self._node.state, _subject(request), number, deleted=request.query.boolean("deleted")
        )

    async def referenced_by(self, request: Request) -> Any:
        number = reading.parse_version(request.parameters["version"])
        page = self._page(request, "schema")
        deleted = request.query.boolean("deleted")
        return reading.referenced_by(self._node.state, _subject(request), number, page, deleted=deleted)

    async def latest_with_metadata(self, request: Request) -> Any:
        query = request.query
        wanted = dict(zip(query.all("key"), query.all("value"), strict=False))
        deleted = query.boolean("deleted")
        version = reading.latest_with_metadata(self._node.state, _subject(request), wanted, deleted=deleted)
        return schema_document(version, await self._formatted(request, version))

    async def lookup(self, request: Request) -> Any:
        subject, deleted, state = _subject(request), request.query.boolean("deleted"), self._node.state
        known = [each for each in reading.names_of(state, subject) if state.versions(each, deleted=deleted)]
        if not known:
            raise errors.subject_not_found(subject)
        wanted = schema_request(json_body(request))
        for each in known:
            version = await self._lookup(request, each, wanted)
            if version is not None:
                return schema_document(version, await self._formatted(request, version))
        raise errors.schema_not_found() if subject in known else errors.subject_not_found(subject)

    async def _lookup(self, request: Request, subject: str, wanted: SchemaRequest) -> Version | None:
        await rights.require_references(request.caller, subject, wanted)
        node, query = self._node, request.query
        wanted = await node.run(tagging.tagged(node.state, node.registry.parser, subject, wanted))
        steps = registering.lookup(
            node.registry,
            subject,
            wanted.content,
            normalize=query.boolean("normalize"),
            deleted=query.boolean("deleted"),
        )
        return await node.run(steps)

    async def register(self, request: Request) -> Any:
        query, subject = request.query, _subject(request)
        wanted = schema_request(json_body(request))
        await rights.require_references(request.caller, subject, wanted)
        normalize, force = query.boolean("normalize"), query.boolean("force")
        registry = self._node.registry
        existing = await self._node.run(registering.already_registered(registry, subject, wanted, normalize=normalize))
        if existing is not None:
            return registering.registered_document(existing, await self._formatted(request, existing))
        written = await self._node.write(
            request,
            lambda at_leader: registering.registration(at_leader, subject, wanted, normalize=normalize, force=force),
        )
        if isinstance(written, Response):  # the leader's, which knows the format
            return written
        document, headers = written
        made = self._node.state.version(subject, document["version"])
        if made is None:  # somebody has deleted it meanwhile
            return written
        return {**document, "schema": await self._formatted(request, made)}, headers

    async def tags(self, request: Request) -> Any:
        number = reading.parse_version(request.parameters["version"])
        subject, change = _subject(request), tag_change(json_body(request))

        def steps(at_leader: Registry) -> Steps[Decision]:
            version = reading.one_version(at_leader.state, subject, number)
            return modification(at_leader, subject, version, change)

        return await self._node.write(request, steps)

    async def delete_subject(self, request: Request) -> Any:
        subject, permanent = _subject(request), request.query.boolean("permanent")
        return await self._write(request, lambda state: deleting.delete_subject(state, subject, permanent=permanent))

    async def delete_version(self, request: Request) -> Any:
        number = reading.parse_version(request.parameters["version"])
        subject, permanent = _subject(request), request.query.boolean("permanent")
        return await self._write(
            request, lambda state: deleting.delete_version(state, subject, number, permanent=permanent)
        )

    # Compatibility

    async def compatible_with_all(self, request: Request) -> Any:
        return await self._compatible(request, self._node.state.versions(_subject(request)))

    async def compatible_with(self, request: Request) -> Any:
        number = reading.parse_version(request.parameters["version"])
        subject, state = _subject(request), self._node.state
        found = state.latest(subject) if number is None else state.version(subject, number)
        if found is None and number is not None:
            raise errors.version_not_found(number)
        return await self._compatible(request, [found] if found is not None else [])

    async def _compatible(self, request: Request, previous: list[Version]) -> Any:
        query, wanted = request.query, schema_request(json_body(request))
        await rights.require_references(request.caller, _subject(request), wanted)
        steps = registering.compatibility_check(
            self._node.registry,
            _subject(request),
            wanted,
            previous,
            normalize=query.boolean("normalize"),
            verbose=query.boolean("verbose"),
        )
        return await self._node.run(steps)

    # Settings

    async def config(self, request: Request) -> Any:
        return settings.config(
            self._node.state,
            self._node.config.rules,
            request.parameters.get("subject"),
            default_to_global=request.query.boolean("defaultToGlobal"),
        )

    async def set_config(self, request: Request) -> Any:
        document, subject = json_body(request), request.parameters.get("subject")
        return await self._write(request, lambda state: settings.set_config(state, subject, document))

    async def delete_config(self, request: Request) -> Any:
        subject, rules = request.parameters.get("subject"), self._node.config.rules
        return await self._write(request, lambda state: settings.delete_config(state, rules, subject))

    async def mode(self, request: Request) -> Any:
        subject = request.parameters.get("subject")
        default_to_global = request.query.boolean("defaultToGlobal")
        return settings.mode(self._node.state, subject, default_to_global=default_to_global)

    async def set_mode(self, request: Request) -> Any:
        document, subject, force = json_body(request), request.parameters.get("subject"), request.query.boolean("force")
        rules = self._node.config.rules
        return await self._write(request, lambda state: settings.set_mode(state, rules, subject, document, force=force))

    async def delete_mode(self, request: Request) -> Any:
        subject, recursive = request.parameters.get("subject"), request.query.boolean("recursive")
        rules = self._node.config.rules
        return await self._write(
            request, lambda state: settings.delete_mode(state, rules, subject, recursive=recursive)
        )

    async def contexts(self, request: Request) -> Any:
        prefix = request.query.get("contextPrefix") or ""
        return reading.list_contexts(self._node.state, prefix, self._page(request, "context"))

    async def delete_context(self, request: Request) -> Any:
        context = request.parameters["context"]
        return await self._write(request, lambda state: deleting.delete_context(state, context))

    async def associations(self, request: Request) -> Any:
        """Topics have no subjects of their own choice here: at this answer, clients take `topic-value`."""
        raise errors.association_not_found(request.parameters["resource"][:200])

    async def change_associations(self, _request: Request) -> Any:
        raise errors.no_associations()

    # The registry itself

    async def cluster(self, _request: Request) -> Any:
        group_id = self._node.config.text("schema.registry.group.id")
        clusters = {"kafka-cluster": self._node.cluster_id, "schema-registry-cluster": group_id}
        return {"scope": {"path": [], "clusters": clusters}, "id": ""}

    async def software(self, _request: Request) -> Any:
        return {"version": f"headwater-{VERSION}", "commitId": ""}

    async def deployment(self, _request: Request) -> Any:
        return {"attributes": []}

    # Helpers

    async def _write(self, request: Request, decide: Callable[[State], Decision]) -> Any:
        def steps(at_leader: Registry) -> Steps[Decision]:
            yield from ()  # there is no work that takes long
            return decide(at_leader.state)

        return await self._node.write(request, steps)

    def _page(self, request: Request, kind: str) -> Page:
        rules, query = self._node.config.rules, request.query
        default = getattr(rules, f"{kind}_search_default_limit")
        return Page(
            query.integer("offset", 0), query.integer("limit", -1), default, getattr(rules, f"{kind}_search_max_limit")
        )

    async def _formatted(self, request: Request, version: Version) -> str:
        """In the format that was asked for; as it is stored if none was."""
        wanted = request.query.get("format")
        if not wanted:
            return version.content.text
        return await self._node.run(registering.formatted(self._node.registry, version, wanted))

    async def _more(self, request: Request, version: Version) -> dict[str, Any]:
        """What is told on request: tags in the schema, and references with their contexts."""
        query, document = request.query, dict[str, Any]()
        if query.all("findTags"):
            node = self._node
            tags = await node.run(tagging.schema_tags(node.state, node.registry.parser, version, query.all("findTags")))
            if tags:
                document["schemaTags"] = tags
        reference_format = query.get("referenceFormat") or query.get("reference_format")  # confluent-kafka's client
        if reference_format == "qualified" and version.content.references:
            document["references"] = [
                {**each.document(), "subject": beside(version.subject, each.subject)}
                for each in version.content.references
            ]
        return document

    def _text(self, request: Request, text: str) -> Response:
        content_type = negotiate(request.headers.get("accept"), CONTENT_TYPES) or CONTENT_TYPES[0]
        return Response(200, text.encode(), {"Content-Type": content_type})


def _subject(request: Request) -> str:
    return normalized(request.parameters["subject"])


def _id(request: Request) -> int:
    text = request.parameters["id"]
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise HttpError(404, "HTTP 404 Not Found")
    return int(text)
