"""Who did what: logins, refused logins, refused rights and changes by administrators, as lines of the logger
`headwater.audit` and, on request, as records of a topic.

trail.py       the topic: events wait and are written in batches
event_queue.py the events that wait: bounded, with room of their own for changes
changes.py     what an answered request of an administrator has changed
"""
