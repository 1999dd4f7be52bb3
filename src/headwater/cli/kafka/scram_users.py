"""`kafka-configs --entity-type users`: the SCRAM credentials of users. A password never leaves this process: its salted
hash does.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headwater.cli.kafka.options import Stop, whole_number

if TYPE_CHECKING:
    from headwater.client.admin import Admin

_ITERATIONS: Final = 4096


def describe_credentials(admin: "Admin", name: str | None) -> None:
    """Of one user, or of all."""
    from headwater.base.errors import KafkaError

    try:
        found = admin.describe_user_scram_credentials([name] if name else None)
    except KafkaError as error:
        raise Stop(1, f"Error: {error.message or error.code.name}") from None
    for user, infos in found.items():
        if not isinstance(infos, KafkaError):
            told = ", ".join(f"{_kafka_name(info.mechanism)}=iterations={info.iterations}" for info in infos)
            sys.stdout.write(f"SCRAM credential configs for user-principal '{user}' are {told}\n")


def alter_credentials(admin: "Admin", name: str, changes: Mapping[str, str | None]) -> None:
    from headwater.base.security.scram import MECHANISMS
    from headwater.client.admin.scram import ScramDeletion, ScramMechanism, ScramUpsertion

    alterations: list[ScramUpsertion | ScramDeletion] = []
    for key, text in changes.items():
        mechanism = ScramMechanism(MECHANISMS[key].number)
        if text is None:
            alterations.append(ScramDeletion(name, mechanism))
        else:
            iterations, password = parse_credential(key, text)
            alterations.append(ScramUpsertion(name, password.encode(), mechanism, iterations))
    problem = admin.alter_user_scram_credentials(alterations)[name]
    if problem is not None:
        raise Stop(1, f"Error: {problem.message or problem.code.name}")


def parse_credential(mechanism: str, text: str) -> tuple[int, str]:
    """`iterations=8192,password=secret`: everything behind `password=` is the password. Errors do not repeat it."""
    from headwater.base.security.scram import ITERATIONS_MAX, ITERATIONS_MIN

    iterations = _ITERATIONS
    if text.startswith("iterations="):
        number, _, text = text.removeprefix("iterations=").partition(",")
        found = whole_number(number.strip(), 32)
        if found is None:
            raise Stop(1, f"Invalid iterations for {mechanism}: it is a whole number")
        iterations = found
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:  # said before it is hashed so often
        raise Stop(
            1, f"Iterations {iterations} are not from {ITERATIONS_MIN} to {ITERATIONS_MAX}, as {mechanism} needs"
        )
    if not text.startswith("password=") or text == "password=":
        raise Stop(1, f"{mechanism} needs a password: '{mechanism}=[iterations=8192,password=...]'")
    return iterations, text.removeprefix("password=")


def _kafka_name(mechanism: int) -> str:
    from headwater.base.security.scram import BY_NUMBER

    return BY_NUMBER[mechanism].value
