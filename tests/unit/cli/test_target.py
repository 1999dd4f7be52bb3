"""What a command talks to: opened on first use, closed at the end, and in a hurry where waiting tells nothing."""

import pytest

from headwater.base.errors import UserError
from headwater.cli.options import Target
from headwater.cli.settings import ConnectOptions


def test_a_hurry_shortens_the_patience_and_never_lengthens_it() -> None:
    target = Target(ConnectOptions("127.0.0.1:1"), "table")
    target.hurry(5_000)
    target.hurry(9_000)
    assert target.admin.session.settings.api_timeout_ms == 5_000
    target.close()


def test_the_client_is_made_once_and_closed_with_the_target() -> None:
    target = Target(ConnectOptions("127.0.0.1:1"), "table")
    admin = target.admin
    assert target.admin is admin
    target.close()
    with pytest.raises(UserError, match="closed"):
        admin.list_topics()
