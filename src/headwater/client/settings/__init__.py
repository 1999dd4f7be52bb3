"""What a client can be told: one table per kind of client (`producer`, `consumer`, `admin`), on top of what all of them
take (`common`), read by `reading`. Kafka's own names; as keyword arguments with underscores for the dots."""
