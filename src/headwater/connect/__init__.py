"""Connect: data in and out of topics by configuration."""
