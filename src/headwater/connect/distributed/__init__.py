"""Workers that share a group: their storage topics, who runs what, and the herder that does it."""
