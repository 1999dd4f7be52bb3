"""CreateAcls (key 30), versions 1 to 3: adds access rules, each on its own. One that is there already is no error."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.acls import Pattern, Rule
from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.requested_change import RequestedChange
from headwater.metadata.image import AclsSet
from headwater.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

NO_AUTHORIZER: Final = "No Authorizer is configured."


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: CreateAclsRequest,
) -> CreateAclsResponse | Deferred:
    if broker.authorizer is None:
        disabled = KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return CreateAclsResponse(results=[_result(disabled) for _ in request.creations])
    return _Creation(broker, request).submit()


class _Creation(RequestedChange):
    def __init__(self, broker: "Broker", request: CreateAclsRequest) -> None:
        super().__init__(broker)
        self._creations = request.creations
        self._results: list[AclCreationResult] = []

    def plan(self) -> Sequence[AclsSet]:
        from headwater.broker.rights.acl_requests import RULES_PER_RESOURCE_MAX

        known = self._broker.image.acls
        wanted: dict[Pattern, list[Rule]] = {}
        self._results = []
        for creation in self._creations:
            try:
                pattern, rule = _checked(creation)
                rules = wanted.setdefault(pattern, list(known.get(pattern, ())))
                if rule not in rules:
                    if len(rules) >= RULES_PER_RESOURCE_MAX:
                        raise KafkaError(
                            ErrorCode.INVALID_REQUEST,
                            f"{pattern.name!r} has {RULES_PER_RESOURCE_MAX} rules already: delete some, or use a prefix or User:*",
                        )
                    rules.append(rule)
            except KafkaError as problem:
                self._results.append(_result(problem))
            else:
                self._results.append(_result(None))
        return [
            AclsSet(*pattern, tuple(rules))
            for pattern, rules in wanted.items()
            if tuple(rules) != known.get(pattern, ())
        ]

    def done(self, error: KafkaError | None) -> None:
        if error is not None:
            self._results = [result if result.error_code else _result(error) for result in self._results]
            self._results = self._results or [_result(error) for _ in self._creations]
        self.deferred.complete(CreateAclsResponse(results=self._results))


def _checked(creation: AclCreation) -> tuple[Pattern, Rule]:
    from headwater.broker.rights.acl_requests import checked

    rule = Rule(creation.principal, creation.host, creation.operation, creation.permission_type)
    return checked(creation.resource_type, creation.resource_pattern_type, creation.resource_name, rule)


def _result(problem: KafkaError | None) -> AclCreationResult:
    if problem is None:
        return AclCreationResult(error_code=0, error_message=None)
    return AclCreationResult(error_code=int(problem.code), error_message=problem.message)
