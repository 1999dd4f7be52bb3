"""Being a member of a group: `port` (what the consumer and its membership say to each other), `classic` and `consumer`
(the shells of the two protocols, on `common` and `event_queue`), and what they decide with, pure: `classic_state`,
`consumer_state`, `verdicts`. `factory` chooses.
"""
