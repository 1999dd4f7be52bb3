"""The topics of an application: which it has by its topology, and how the internal ones are made."""
