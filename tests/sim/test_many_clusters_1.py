"""A quarter of the many clusters (`many_clusters.py`), in a file of its own so that several processes share them."""

import pytest

from sim.many_clusters import Group, run, share

pytestmark = pytest.mark.usefixtures("only_errors_are_told")


@pytest.mark.parametrize("group", share(1), ids=str)
def test_clusters_with_faults(group: Group) -> None:
    run(group)
