"""What clients know of topics and their partitions."""

from headwater.sim.catalog import Catalog


def test_a_partition_that_was_added_is_not_known_before_a_client_has_heard_of_it() -> None:
    """Seed 515777086 of cluster-storage: CreatePartitions was not answered yet, and a fault was to strike there."""
    catalog = Catalog()
    assert catalog.partition(b"t" * 16, 0) is None
    catalog.created("topic", b"t" * 16, 1)
    known = catalog.partition(b"t" * 16, 0)
    assert known is not None
    assert catalog.partition(b"t" * 16, 1) is None
    catalog.created("topic", b"t" * 16, 2)
    assert catalog.partition(b"t" * 16, 0) is known
    assert catalog.partition(b"t" * 16, 1) is not None
