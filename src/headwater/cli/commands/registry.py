"""`headwater registry`: run a schema registry."""

import click


@click.group()
def registry() -> None:
    """Run a schema registry."""


@registry.command()
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="schema-registry.properties, with Confluent's own names.",
)
@click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="A setting over the file; may come several times."
)
@click.option("--stop-on-eof", is_flag=True, hidden=True, help="Stop when stdin ends: for a supervisor.")
def start(config_path: str | None, sets: tuple[str, ...], stop_on_eof: bool) -> int:
    """Run a schema registry in the foreground, until SIGTERM or Ctrl-C.

    Prints a line beginning with `ready` on stdout when it serves. Several on the same topic elect a leader, and forward
    writes to it.
    """
    import logging
    from pathlib import Path

    from headwater.registry.config import RegistryConfig
    from headwater.registry.service import RegistryService
    from headwater.server import logs_for_people
    from headwater.web.process import run_service

    text = Path(config_path).read_text(encoding="utf-8", errors="replace") if config_path is not None else None
    config, warnings = RegistryConfig.load(text, list(sets))
    logs_for_people.configure(config.text("log.format"))
    for warning in warnings:
        logging.getLogger("headwater.registry").warning("event=config %s", warning)
    return run_service(lambda: RegistryService(config), stop_on_eof=stop_on_eof)
