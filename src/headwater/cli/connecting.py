"""From settings to an admin client. Apart from `options`, because it is what loads the client."""

from headwater.cli.settings import ClientSettings
from headwater.client.admin import Admin


def open_admin(settings: ClientSettings) -> Admin:
    """Nothing is connected yet; only an address that cannot be read fails here."""
    return Admin(
        settings.security,
        bootstrap_servers=settings.bootstrap,
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        default_api_timeout_ms=settings.api_timeout_ms,
        socket_connection_setup_timeout_ms=settings.connect_timeout_ms,
    )
