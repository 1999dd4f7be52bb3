"""Who did what: logins, refused logins, refused rights and changes by administrators, as lines of the logger
`headwater.audit` and, on request, as records of a topic.

trail.py       the topic: a bounded queue, written in batches
changes.py     what an answered request of an administrator has changed
"""
