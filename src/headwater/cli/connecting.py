"""From settings to a cluster. Apart from `options`, because it is what loads the client."""

from headwater.cli.settings import ClientSettings
from headwater.client.addresses import parse_bootstrap
from headwater.client.cluster import Cluster


def open_cluster(settings: ClientSettings) -> Cluster:
    """Nothing is connected yet; only an address that cannot be read fails here."""
    return Cluster(
        parse_bootstrap(settings.bootstrap),
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        api_timeout_ms=settings.api_timeout_ms,
        connect_timeout_ms=settings.connect_timeout_ms,
    )
