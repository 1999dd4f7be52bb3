"""WordCount: lines of text in, the count of each word out. `headwater stream run examples/streams/word_count.py`"""

from headwater.streams import App

app = App("word-count", value="text")
words = app.stream("lines").flat_map_values(lambda line: line.lower().split())
words.group_by(lambda word: word).count(store="counts").to_stream().to("word-counts")
