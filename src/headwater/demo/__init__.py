"""`make demo`: a broker, visitors of a website, a Spark pipeline, and its results in a topic, in files and in SQLite.

activity   the website and its visitors: what they do next, from a seed
pipeline   records -> page views -> numbers per section and window; frames in, frames out
view       what the terminal shows
engine     the process that runs it all; it stops when its standard input closes
__main__   the process that the terminal talks to; Ctrl-C reaches only this one
"""
