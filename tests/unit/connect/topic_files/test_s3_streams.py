"""What Arrow's streams of S3 must not do: complete an upload that did not get all its data."""

import subprocess
import sys
from textwrap import dedent


def test_a_refused_upload_is_neither_completed_nor_waited_for_when_the_process_ends() -> None:
    """A worker that had one did not end: Arrow's destructor closes the stream, and waits for threads that are gone."""
    code = """
        from headwater.connect.connectors.topic_files.s3 import S3Objects

        class Stream:
            def write(self, data):
                raise OSError("refused")

            def __del__(self):
                print("destroyed", flush=True)

        class System:
            def open_output_stream(self, path):
                return Stream()

        objects = S3Objects.__new__(S3Objects)
        objects._system, objects._root = System(), "bucket"
        try:
            objects.put("key", b"data")
        except OSError as problem:
            print(problem)
    """
    told = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True).stdout
    assert told == "refused\n"
