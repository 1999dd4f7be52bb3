"""Completing what the cluster knows, while a person types: short waits, and silence when nobody answers."""

from typing import Final

import click
from click.shell_completion import CompletionItem

from headwater.base.errors import KafkaError, UserError

_TIMEOUT_MS: Final = 1_000


def topic_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from headwater.cli.connecting import open_admin
    from headwater.cli.settings import ConnectOptions, resolve

    given = ctx.params
    options = ConnectOptions(given.get("bootstrap_server"), given.get("command_config"), given.get("profile"))
    try:
        settings = resolve(options)._replace(connect_timeout_ms=_TIMEOUT_MS, request_timeout_ms=_TIMEOUT_MS)
        with open_admin(settings) as admin:
            names = [topic.name for topic in admin.list_topics(internal=incomplete.startswith("_"))]
    except (KafkaError, UserError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
