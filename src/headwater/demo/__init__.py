"""`make demo`: a broker, visitors of a website, a Spark pipeline with its results in a topic, in files and in SQLite,
and a Streams application.

activity   the website and its visitors: what they do next, from a seed
pipeline   records -> page views -> numbers per section and window; frames in, frames out
visits     the Streams application: visits as sessions, and a count of pages in a store
view       what the terminal shows
demo_run   the process that runs it all; it stops when its standard input closes
__main__   the process that the terminal talks to; Ctrl-C reaches only this one
watched_processes   which process of the demo has ended, and where its log is
"""
