"""What one client, and all clients together, may take from an HTTP door."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are seconds. Nothing here is a promise of speed: each is what stands between a bad client and the
    others.
    """

    head_bytes_max: int = 32 * 1024  # the request line and all header fields, and the same again for trailers
    header_fields_max: int = 100
    body_bytes_max: int = 16 * 1024 * 1024
    buffered_bytes_max: int = 128 * 1024 * 1024  # of all connections' requests that have not been answered
    connections_max: int = 1000
    idle_timeout_s: float = 75.0  # between two requests of a connection
    receive_timeout_s: float = 60.0  # from the first byte of a request to its last
    stream_idle_timeout_s: float = 24 * 3600.0  # between two pieces of a body that is handed on while it comes
    handle_timeout_s: float | None = 120.0  # from there to the response; a stream that has begun is not limited
    send_timeout_s: float = 60.0  # for each piece of a response that the client does not take
    stop_timeout_s: float = 10.0  # for requests under way when the server stops
