"""The root of the `headwater` command in click: which verbs there are, and how any of them ends.

Exit codes: 0 done, 1 failed, 2 wrong usage. Results go to stdout, everything else to stderr. Ctrl-C and a reader that
went away end a command without a word.
"""

import errno
import re
import sys
from typing import Final

import click

from headwater._version import VERSION
from headwater.base.errors import KafkaError, UserError
from headwater.cli.lazy import LazyCommand, LazyGroup
from headwater.cli.lost_output import forget_stdout, unwritten

FAILED: Final = 1
USAGE: Final = 2
_REFUSALS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)

_COMMANDS: Final = "headwater.cli.commands"
_SECRET_OPTIONS: Final = frozenset(("--set", "--password-stdin"))
_EXTRA_WORDS: Final = re.compile(r"^(Got unexpected extra arguments?) \(.*", re.DOTALL)


def _command(module: str, attribute: str, help_text: str) -> LazyCommand:
    return LazyCommand(f"{_COMMANDS}.{module}", attribute, help_text)


VERBS: Final = {
    "up": _command("up", "up", "Start a broker or several on this machine, and keep them running."),
    "down": _command("down", "down", "Stop what `headwater up` started."),
    "status": _command("status", "status", "Show what runs, where, and how it is doing."),
    "doctor": _command(
        "doctor", "doctor", "Check this machine for what Headwater needs, and for what is open to others."
    ),
    "broker": _command("broker", "broker", "Run one broker, or look into its files."),
    "topic": _command("topic", "topic", "List, create, describe, alter, delete and trim topics."),
    "produce": _command("produce", "produce", "Write records from stdin to a topic."),
    "consume": _command("consume", "consume", "Read records of a topic."),
    "tail": _command("consume", "tail", "Show the last records of a topic, and each new one."),
    "group": _command("group", "group", "Look at consumer groups, reset their offsets, delete them."),
    "cluster": _command("cluster", "cluster", "Show the cluster and its health, move partitions, elect leaders."),
    "config": _command("config", "config", "Read and change settings of topics and brokers."),
    "user": _command("user", "user", "List, add and delete users that log in by SCRAM."),
    "profile": _command("profile", "profile", "Keep clusters under a name: address, login and doors."),
    "schema": _command("schema", "schema", "List, register, check, compare and delete schemas."),
    "stream": _command("stream", "stream", "Run applications of headwater.streams, look at them, begin them anew."),
    "registry": _command("registry", "registry", "Run a schema registry."),
    "sql": _command("sql", "sql", "SQL over streams: a shell, a server, and tests without a broker."),
    "connect": _command("connect", "connect", "Run connectors, and look after those that run."),
    "generate": _command("generate", "generate", "Write shell completion."),
}


class ReaderGone(Exception):
    """Whoever read our output has closed it."""


class _Root(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        """Takes a broken pipe before click does, which would make a failure of it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None


@click.group(
    cls=_Root,
    lazy=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Start here: headwater up -d; headwater topic create hello; echo world | headwater produce hello; "
    "headwater consume hello -e",
)
@click.version_option(VERSION, "--version", "-V", message="headwater %(version)s")
def cli() -> None:
    """Headwater: a streaming platform that any Kafka client already knows."""


def run(arguments: list[str] | None = None) -> int:
    """Runs one command and says how it ended. Every exception that a person may cause becomes a sentence."""
    try:
        result = cli.main(args=arguments, prog_name="headwater", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        if not isinstance(error, click.UsageError):
            error.show()
            return FAILED
        _without_values(error).show()
        return USAGE
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        return FAILED
    except (BrokenPipeError, ReaderGone):
        forget_stdout()
        return 0
    except OSError as error:
        from headwater.cli.explain import explain

        problem = unwritten(error)
        if problem is not None:
            forget_stdout()
        else:
            problem = _refused(error)
        if problem is None:
            raise
        click.echo(explain(problem), err=True)
        return FAILED
    except (UserError, KafkaError) as error:
        from headwater.base.printable import for_stream
        from headwater.cli.explain import explain

        click.echo(for_stream(explain(error), sys.stderr), err=True)
        return FAILED


def _refused(error: OSError) -> UserError | None:
    """The failure for people, if the system does not let them at a file or a directory, or has no room for it."""
    if error.filename is None or error.errno not in _REFUSALS:
        return None
    name = error.filename.decode("utf-8", "replace") if isinstance(error.filename, bytes) else error.filename
    return UserError(f"Cannot use {name}", error.strerror or str(error))


def _without_values(error: click.UsageError) -> click.UsageError:
    """Of a command that takes settings or passwords, a word in the wrong place may be one: it is not repeated."""
    takes_secrets = error.ctx is not None and any(
        _SECRET_OPTIONS.intersection(each.opts) for each in error.ctx.command.params
    )
    shorter = _EXTRA_WORDS.sub(r"\1", error.message)
    return click.UsageError(shorter, error.ctx) if takes_secrets and shorter != error.message else error
