"""What requests of AlterConfigs and IncrementalAlterConfigs ask for,
for the handlers and for a broker that forwards them.
"""

from headwater.base.config.alter import ConfigOperation, Operation, check_operations
from headwater.broker.config_changes import Alteration
from headwater.wire.messages import alter_configs, incremental_alter_configs


def replacements_of(request: alter_configs.AlterConfigsRequest) -> list[Alteration]:
    return [Alteration(r.resource_type, r.resource_name, _Replacement(r)) for r in request.resources]


def operations_of(request: incremental_alter_configs.IncrementalAlterConfigsRequest) -> list[Alteration]:
    return [Alteration(r.resource_type, r.resource_name, _Operations(r)) for r in request.resources]


class _Replacement:
    """As operations: what is there and not named is deleted, the rest is set."""

    def __init__(self, resource: alter_configs.AlterConfigsResource) -> None:
        self._resource = resource

    def __call__(self, current: dict[str, str]) -> list[ConfigOperation]:
        named = {config.name for config in self._resource.configs}
        wanted = check_operations((c.name, int(Operation.SET), c.value) for c in self._resource.configs)
        return [ConfigOperation(name, Operation.DELETE, None) for name in current if name not in named] + wanted


class _Operations:
    def __init__(self, resource: incremental_alter_configs.AlterConfigsResource) -> None:
        self._resource = resource

    def __call__(self, current: dict[str, str]) -> list[ConfigOperation]:  # noqa: ARG002
        return check_operations((c.name, c.config_operation, c.value) for c in self._resource.configs)
