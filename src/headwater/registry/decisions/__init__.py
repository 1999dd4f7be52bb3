"""Every request of the registry as a decision: request and state in, records to write and an answer out. Pure."""
