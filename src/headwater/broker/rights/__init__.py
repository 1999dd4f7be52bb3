"""Who may do what: Apache Kafka's authorizer, and what each API asks of it.

`rule_index` answers whether rules allow something; `authorizer` keeps an index of the image's rules and remembers
answers; `guards` has a line for every API, which names the operations and resources that it needs, and what is refused
without them. A request passes its guard before its handler sees it (`server/dispatch.py`), so that handlers know
nothing of rights, but for fetches, whose sessions hold partitions that the request does not name, and for answers that
tell authorized operations.
"""
