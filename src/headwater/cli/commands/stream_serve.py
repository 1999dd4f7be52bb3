"""`headwater stream serve`: queries over HTTP from the state that an application keeps on this machine, in a process of
its own.
"""

import os
import signal
import threading
from pathlib import Path

import click


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0: any port that is free.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--state-dir", type=click.Path(file_okay=False, path_type=Path), default="headwater-state", show_default=True
)
@click.option("--cluster-id", metavar="ID", help="Whose state, if the application has run on several clusters.")
@click.option("--stale", is_flag=True, help="Answer also from standbys' copies of tasks that other machines have.")
def serve(path: Path, port: int, host: str, state_dir: Path, cluster_id: str | None, stale: bool) -> None:
    """Answer queries over HTTP from the state of an application on this machine, until SIGTERM or Ctrl-C.

    Beside the application, which goes on computing: the state on disk is read as of its last commit. Prints a line
    beginning with `ready`. The secret is what HEADWATER_QUERY_TOKEN holds; if it is not set, one is made and written to
    a file.
    """
    from headwater.base.extras import STREAMS, require_extra

    require_extra("streams", "Serving the state of an application", STREAMS)
    from headwater.cli.stream_files import load_app
    from headwater.cli.stream_queries import told_of
    from headwater.streams.query.client import TOKEN_VARIABLE
    from headwater.streams.query.server import QueryServer
    from headwater.streams.query.state_reader import StateReader
    from headwater.streams.slot.settings import check_token

    app = load_app(path)
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    token = os.environ.get(TOKEN_VARIABLE)
    reader = StateReader(state_dir, app.name, app.topology().sub_topologies(), app.settings(), cluster_id, stale=stale)
    try:
        server = QueryServer(
            app.name,
            reader.tasks,
            port=port,
            host=host,
            token=check_token(token) if token is not None else None,
            directory=reader,
        )
        with server.start():
            click.echo(f"ready application={app.name}" + told_of(server, state_dir / app.name))
            stopping.wait()
    finally:
        reader.close()
        for number, handler in before.items():
            signal.signal(number, handler)
