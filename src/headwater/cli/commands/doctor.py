"""`headwater doctor`: is everything here that Headwater needs, and what is open to others?"""

from pathlib import Path

import click

from headwater.cli.options import data_dir_option, output_option
from headwater.cli.output import emit
from headwater.cli.paths import default_data_dir


@click.command()
@data_dir_option
@click.option(
    "--config",
    "configs",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Properties of a broker, registry, SQL server or Connect worker: what do they leave open? May come several times.",
)
@output_option
def doctor(data_dir: str | None, configs: tuple[str, ...], output: str) -> int:
    """Check this machine for everything Headwater needs, and tell what is open to others.

    Looks at what `headwater up` has started, and at the properties files of --config: listeners without TLS or a login,
    rights, HTTP doors, files with secrets, certificates that end. Exit code 1 if something must be mended.
    """
    from datetime import UTC, datetime

    from headwater.cli.checks import FAIL, OK, run_checks
    from headwater.cli.exposure_sources import run_exposure_checks

    directory = (Path(data_dir).expanduser() if data_dir else default_data_dir()).absolute()
    findings = [*run_checks(directory), *run_exposure_checks(directory, configs, datetime.now(UTC))]
    width = max(len(finding.check) for finding in findings)
    lines = []
    for level, check, found, hint in findings:
        lines.append(f"{level:<4}  {check.ljust(width)}  {found}\n")
        if hint:
            lines.append(f"{'':<4}  {'':<{width}}  -> {hint}\n")
    worst = [finding for finding in findings if finding.level != OK]
    lines.append(
        "\nAll is well\n" if not worst else f"\n{len(worst)} of {len(findings)} checks have something to say\n"
    )
    emit(output, [finding._asdict() for finding in findings], "".join(lines))
    return 1 if any(finding.level == FAIL for finding in findings) else 0
