"""Tables of properties, secrets and config providers, and what workers are configured with."""
