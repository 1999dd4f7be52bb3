"""A connector's config, checked before anything starts: with references resolved, and nothing that they gave in the
answer.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headwater.base.errors import UserError
from headwater.connect.config.providers import Providers
from headwater.connect.config.secrets import forms_of, redacted
from headwater.connect.connector_config.client_overrides import check_logins, checked_overrides
from headwater.connect.connector_config.validation import (
    Delivery,
    Validation,
    names_plugins,
    validate,
    wrong_converters,
)
from headwater.connect.errors import ConfigError, ConnectError
from headwater.connect.plugins import Catalog
from headwater.connect.runtime.refusals import BadRequest

if TYPE_CHECKING:
    from headwater.connect.config.worker import WorkerConfig
    from headwater.connect.runtime.worker import Worker


_OF_OTHERS: Final = ("config.storage.topic", "status.storage.topic")


def wrong_offsets_topic(connector: Mapping[str, str], worker: Mapping[str, str]) -> list[str]:
    """What is wrong with a connector's `offsets.storage.topic`: it is somebody else's, or not where its records go."""
    topic = connector["offsets.storage.topic"].strip()
    wrong = []
    owner = next((name for name in _OF_OTHERS if worker.get(name) == topic), None)
    if owner is not None:
        wrong.append(f"The topic {topic!r} is the worker's own ({owner}): offsets cannot be in it")
    elif topic.startswith("__") or topic == "_schemas":
        wrong.append(f"The topic {topic!r} is one of the cluster's or the schema registry's: offsets cannot be in it")
    for kind in ("producer", "consumer", "admin"):
        name = f"{kind}.override.bootstrap.servers"
        if name in connector and _servers(connector[name]) != _servers(worker.get("bootstrap.servers", "")):
            wrong.append(
                f"offsets.storage.topic is a topic of the worker's cluster, and {name} leads to another one: a connector can have one of "
                "them, not both"
            )
    return wrong


def _servers(text: str) -> set[str]:
    return {each.strip() for each in text.split(",")}


def check_worker(config: "WorkerConfig", catalog: Catalog) -> None:
    """Raises UserError that tells all that is wrong with the worker's own converters."""
    given: set[str] = set()
    try:
        wrong = wrong_converters(catalog, Providers(config.props).resolved(config.props, given))
    except ConfigError as error:
        wrong = [str(error)]
    if wrong:
        told = redacted("; ".join(wrong), forms_of(given))
        raise UserError("The worker's properties cannot be used", told, "docs/CONNECT.md lists them")


class ConfigChecks:
    def __init__(self, worker: "Worker", delivery: Delivery = Delivery.STANDALONE) -> None:
        self.worker, self._delivery = worker, delivery

    def validated(self, config: Mapping[str, str]) -> Validation:
        """References are resolved for the check; what is wrong with a reference is told at its property. Nothing that a
        provider gave is in the answer or in an error.
        """
        catalog, given = self.worker.catalog, set[str]()
        try:
            resolved = self.worker.providers.resolved(config, given)
        except ConfigError as error:
            checked: Validation = self.worker.call(validate, catalog, config, self._delivery)
            if error.name in checked.values:
                checked.values[error.name].errors.append(str(error))
                return checked
            raise
        misplaced = [name for name, value in resolved.items() if names_plugins(name) and value != config[name]]
        unresolved = {name: config[name] if name.endswith((".class", ".type")) else "" for name in misplaced}
        secrets = forms_of(given)
        try:
            checked = self.worker.call(validate, catalog, {**resolved, **unresolved}, self._delivery)
        except Exception as error:  # noqa: BLE001 - a plugin's too
            raise ConnectError(redacted(str(error), secrets)) from None
        for name in (each for each in misplaced if each in checked.values):
            checked.values[name].errors.append(f"{name}: no reference to a config provider can stand here")
        topic = checked.values.get("offsets.storage.topic")
        if topic is not None and topic.value:
            topic.errors.extend(wrong_offsets_topic(resolved, self.worker.config.props))
        worker = self.worker.config
        overrides = checked_overrides(
            worker["connector.client.config.override.policy"],
            worker["connector.client.config.override.allowlist"],
            resolved,
        )
        check_logins(overrides, lambda client: worker.client(client, resolved))
        checked.values.update(overrides)
        return checked.hiding(secrets, config, resolved)

    def check(self, config: Mapping[str, str]) -> None:
        try:
            checked = self.validated(config)
        except ConnectError as error:
            raise BadRequest(str(error)) from None
        if checked.errors:
            listed = "\n".join(checked.errors)
            raise BadRequest(
                f"Connector configuration is invalid and contains the following {len(checked.errors)} error(s):\n{listed}\n"
                "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
            )
