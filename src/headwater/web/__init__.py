"""What the HTTP doors share: the server, errors, content types."""
