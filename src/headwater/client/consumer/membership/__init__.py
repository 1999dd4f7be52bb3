"""Being a member of a group: `port` (what the consumer and its membership say to each other), the classic protocol and
the consumer protocol (KIP-848). Decisions are in pure classes; `runner` and its two kinds are their shells."""
