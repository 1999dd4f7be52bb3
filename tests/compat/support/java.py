"""The Java side: compiles tests/java/src once, and talks to one long-lived JVM by JSON lines (see Harness.java)."""

import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

JAVA = Path(__file__).parents[2] / "java"
LIBRARY = JAVA / "target" / "lib"
ANSWER_TIMEOUT_S = 150
ADMIN_TIMEOUTS = {"request.timeout.ms": 45_000, "default.api.timeout.ms": 60_000}


def classpath() -> str:
    """The compiled harness and all jars, or a skip that says what is missing."""
    if shutil.which("javac") is None:
        pytest.skip("java is not installed (a JDK is needed)")
    if not (LIBRARY / ".complete").exists():
        pytest.skip("the jars of tests/java/pom.xml are not there: run tests/tools.sh (needs Maven)")
    return f"{_classes()}:{LIBRARY}/*"


def _classes() -> Path:
    """A directory of its own for each state of the sources: other runs, and their JVMs, keep theirs."""
    sources = sorted((JAVA / "src").glob("*.java"))
    state = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = JAVA / "target" / f"classes-{state}"
    if classes.exists():
        return classes
    with (JAVA / "target" / "compiling").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # one at a time: the others find it done
        if not classes.exists():
            with tempfile.TemporaryDirectory(dir=JAVA / "target") as folder:
                made = Path(folder, "classes")
                command = ["javac", "-nowarn", "-cp", f"{LIBRARY}/*", "-d", str(made), *map(str, sources)]
                subprocess.run(command, check=True)
                made.rename(classes)
    return classes


def java_command(heap: str) -> list[str]:
    """Small and quick to start: these JVMs live for seconds and share two cores."""
    return ["java", f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]


class JavaError(Exception):
    """An exception of the Java client, with its class name and Kafka's error code."""

    def __init__(self, name: str, code: int, message: str) -> None:
        super().__init__(f"{name} ({code}): {message}")
        self.name = name
        self.code = code
        self.message = message


class Tool:
    """What a console tool answered."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.status: int = answer["status"]
        self.stdout: str = answer["stdout"]
        self.stderr: str = answer["stderr"]

    def __repr__(self) -> str:
        return f"status={self.status}\nstdout:\n{self.stdout}\nstderr:\n{self.stderr}"


class Java:
    """The harness process. One command at a time; each answer is waited for."""

    def __init__(self, main: str = "Harness") -> None:
        command = [*java_command("384m"), "-cp", classpath(), main]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._lock = threading.Lock()

    def call(self, op: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            self._process.stdin.flush()
            watchdog = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
            watchdog.start()
            line = self._process.stdout.readline()
            watchdog.cancel()
            watchdog.join()
        if not line:
            raise AssertionError(f"the JVM ended, or did not answer within {ANSWER_TIMEOUT_S} s: {op} {arguments}")
        answer = json.loads(line)
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            raise JavaError(**answer["error"])
        return answer

    def tool(self, main: str, *arguments: str, stdin: str = "") -> Tool:
        """Runs a console tool by its class name, short for those of org.apache.kafka.tools."""
        name = main if "." in main else f"org.apache.kafka.tools.{main}"
        return Tool(self.call("tool", main=name, arguments=list(arguments), stdin=stdin))

    def admin(self, bootstrap: str, call: str, **arguments: Any) -> Any:
        config = {"bootstrap.servers": bootstrap, **ADMIN_TIMEOUTS}
        return self.call("admin", call=call, config=config, **arguments)

    def group_admin(self, bootstrap: str, call: str, **arguments: Any) -> Any:
        """For the JVM that runs Groups.java."""
        config = {"bootstrap.servers": bootstrap, **ADMIN_TIMEOUTS}
        return self.call("groupAdmin", call=call, config=config, **arguments)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
