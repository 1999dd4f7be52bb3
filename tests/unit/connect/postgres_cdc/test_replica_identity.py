"""Which replica identity a table is to have."""

import pytest

from headwater.connect.connectors.postgres_cdc.replica_identity import Identity, ReplicaIdentities
from headwater.connect.errors import ConfigError, ConnectError


def test_identities_are_chosen_by_patterns() -> None:
    found = ReplicaIdentities("public.a.*:full, Sales.b:INDEX by_number,sales.c:NOTHING,.*.ab:DEFAULT")
    assert found.of("public", "a") == Identity("f")
    assert found.of("sales", "b") == Identity("i", "by_number")
    assert [str(found.of("sales", each)) for each in "bc"] == ["USING INDEX by_number", "NOTHING"]
    assert found.of("sales", "d") is None
    with pytest.raises(ConnectError, match=r"several patterns match public\.ab"):
        found.of("public", "ab")
    assert not ReplicaIdentities(None)


@pytest.mark.parametrize("text", ["public.a", "public.a:ALL", "a:FULL,", "a:INDEX"])
def test_what_is_no_identity_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match=r"replica\.identity\.autoset\.values: .* is not pattern:FULL"):
        ReplicaIdentities(text)
