"""What a task carries out: nodes, stores and sub-topologies, and how they are described, drawn and compared. Pure."""
