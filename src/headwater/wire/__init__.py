"""The Kafka protocol, sans I/O: `schema` declares, `codec` compiles, `headers` and `framing` wrap, `registry` finds."""
