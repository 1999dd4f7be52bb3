"""`headwater broker start`: one broker in the foreground, until SIGTERM or SIGINT."""

import contextlib
import logging
import os
import select
import shutil
import signal
import sys

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import UserError
from headwater.server import logs_for_people
from headwater.server.node import Node, StartInterrupted, raise_file_limit

logger = logging.getLogger("headwater.server")


def run(config_path: str | None, overrides: list[str], *, stop_on_eof: bool = False, is_temporary: bool = False) -> int:
    """Exit code 0 after a clean stop, 1 when the broker could not start or had to give up.

    `stop_on_eof`: also stops when stdin closes, and if `is_temporary` removes its log directories then.
    """
    try:
        config, warnings = BrokerConfig.load(config_path, overrides)
        logs_for_people.configure(config.string("log.format") or "text")
        for warning in warnings:
            logger.warning("event=config %s", warning)
        raise_file_limit()
        node = Node(config)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: node.loop.stop())
        node.start()
    except UserError as problem:
        _explain(problem)
        return 1
    except StartInterrupted:
        logger.info("event=stopped note='before the start was over'")
        return 0
    orphaned: list[bool] = []
    if stop_on_eof:
        _stop_with_parent(node, orphaned)
    with contextlib.suppress(BrokenPipeError):  # nobody reads it: no reason not to serve
        sys.stdout.write(node.ready_line + "\n")
        sys.stdout.flush()
    logger.info("event=started broker=%d pid=%d", node.broker.broker_id, os.getpid())
    node.run()
    logger.info("event=stopping")
    node.close()
    if orphaned and is_temporary:
        for directory in config.log_dirs():
            shutil.rmtree(directory, ignore_errors=True)
    return node.exit_code


def _stop_with_parent(node: Node, orphaned: list[bool]) -> None:
    """The parent holds the other end of our stdin: when it is gone, for whatever reason, so are we."""

    def on_stdin(_events: int) -> None:
        if not os.read(0, 4096):
            node.loop.unregister(0)
            orphaned.append(True)
            node.loop.stop()

    node.loop.register(0, select.EPOLLIN, on_stdin)


def _explain(problem: UserError) -> None:
    lines = [f"error: {problem.what}"]
    if problem.why:
        lines.append(f"  why: {problem.why}")
    if problem.hint:
        lines.append(f"  try: {problem.hint}")
    sys.stderr.write("\n".join(lines) + "\n")
