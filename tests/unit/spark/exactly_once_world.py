"""A small world for the exactly-once writer's protocol: coordinator, decision topic, drivers, task attempts, and
faults.

The drivers and attempts run the real generators of `headwater.spark.exactly_once`. Every step of every actor is one
choice of a scheduler; between any two steps a driver may crash or be replaced while it lives on (a zombie), an attempt
may be given up while it lives on, a transaction may time out, and committed offsets may take a while to be seen. Of a
driver that has ended or was replaced, what it has left open is aborted beside its successors (`abandon_steps`).

`World.run` raises `Violation` when an input's effect is written twice or never, when a batch is done and a transaction
that was left open still hides its rows from readers of committed records, when a driver aborts what belongs to a later
batch than its own, or when the end of one aborts what belongs to another. A run may also end stuck: a driver that fails
loudly, every time. Which runs may do so is for the tests to say.
"""

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from headwater.base.errors import UserError

Choose = Callable[[int], int]  # of so many options, the first is what would happen without faults
Option = tuple[str, Callable[..., None], tuple[Any, ...]]  # what it is, for the trace; what it does


class Violation(Exception):
    pass


class Fenced(Exception):
    """The broker refuses a producer whose epoch is over."""


class Wait(Exception):
    """The answer is not there yet: the step is tried again later."""


@dataclass
class Faults:
    """How many of each kind a run may have."""

    crashes: int = 0
    zombies: int = 0  # drivers that live on beside their successors
    lost_attempts: int = 0  # attempts that are given up and live on
    timeouts: int = 0
    slow_offsets: int = 0
    forgets: int = 0  # somebody deletes the topic with the decision
    counts: tuple[int, ...] = (2,)  # the number of tasks, by driver
    deterministic: bool = True
    epoch_bump: bool = True  # transaction version 2: EndTxn bumps the epoch
    abandons: int = 0  # drivers that are looked after when they end
    zombies_sleep: bool = False  # those who were replaced wake up late, when their successors have gone on


@dataclass
class Transaction:
    """One transactional id."""

    epoch: int = 0
    run: str = ""  # who has begun it
    opened: bool = False
    end: int = 0  # where its last row stands
    since: int = 0  # where it begins in the log; while it is open, readers of committed records stop there
    rows: list[tuple[int, int]] = field(default_factory=list)
    progress: Any = None
    ended: tuple[int, bool] | None = None  # the epoch of the last transaction that was ended, and how


class Cluster:
    def __init__(self, protocol: ModuleType, faults: Faults) -> None:
        self.protocol = protocol
        self.faults = faults
        self.transactions: dict[int, Transaction] = {}
        self.progress: dict[int, Any] = {}
        self.unseen: dict[int, Any] = {}  # committed, but not yet shown by the group's coordinator
        self.decision: Any = None
        self.deciding = 0  # the epoch of the last driver that has begun to decide
        self.output: list[tuple[int, int]] = []
        self.log_end = 0
        self.last_row: dict[int, int] = {}  # where a batch's last row stands that is committed

    def of(self, task: int) -> Transaction:
        return self.transactions.setdefault(task, Transaction())

    def abort(self, task: int, *, fences: bool = True) -> None:
        transaction = self.of(task)
        transaction.ended = (transaction.epoch, False)
        transaction.epoch += fences
        transaction.opened, transaction.rows, transaction.progress = False, [], None

    def begin(self, task: int, run: str) -> Any:
        if self.of(task).opened:
            self.abort(task)
        self.of(task).epoch += 1
        self.of(task).run = run
        return self.protocol.Producer(str(task), 100 + task, self.of(task).epoch)

    def write(self, producer: Any, rows: list[tuple[int, int]], progress: Any = None) -> None:
        transaction = self.of(int(producer.transactional_id))
        if producer.epoch != transaction.epoch:
            raise Fenced
        if rows or progress is not None:
            self.log_end += 1
            if not transaction.opened:
                transaction.opened, transaction.since = True, self.log_end
            if rows:
                transaction.end = self.log_end
            transaction.rows += rows
            transaction.progress = progress or transaction.progress

    def is_open(self, producer: Any) -> bool:
        transaction = self.of(int(producer.transactional_id))
        return transaction.opened and transaction.epoch == producer.epoch

    def end(self, producer: Any, commit: bool) -> bool:
        task = int(producer.transactional_id)
        transaction = self.of(task)
        if not self.is_open(producer):
            return transaction.ended == (producer.epoch, commit)
        if not commit:
            self.abort(task, fences=self.faults.epoch_bump)
            return True
        self.output += transaction.rows
        for batch, _ in transaction.rows:
            self.last_row[batch] = max(self.last_row.get(batch, 0), transaction.end)
        if transaction.progress is not None:
            self.unseen[task] = transaction.progress
            if not self.faults.slow_offsets:
                self.show(task)
        transaction.opened, transaction.rows, transaction.progress = False, [], None
        transaction.ended = (producer.epoch, True)
        if self.faults.epoch_bump:
            transaction.epoch += 1
        return True

    def begin_deciding(self) -> int:
        self.deciding += 1
        return self.deciding

    def decide(self, decision: Any, epoch: int | None) -> None:
        """`epoch` is None for a driver that never began: nothing holds it back."""
        if epoch not in (None, self.deciding):
            raise self.protocol.Superseded("another driver has begun to decide")
        self.decision = decision

    def all_open(self, run: str | None = None) -> tuple[Any, ...]:
        return tuple(
            self.protocol.Producer(str(task), 100 + task, transaction.epoch)
            for task, transaction in sorted(self.transactions.items())
            if transaction.opened and run in (None, transaction.run)
        )

    def batch_of(self, producer: Any) -> int:
        """-1: it has nothing open."""
        transaction = self.of(int(producer.transactional_id))
        if not self.is_open(producer):
            return -1
        return transaction.rows[0][0] if transaction.rows else transaction.progress.batch

    def hidden(self, batch: int) -> list[int]:
        """The tasks whose open transactions stand before rows of the batch."""
        last = self.last_row.get(batch, 0)
        return [task for task, each in self.transactions.items() if each.opened and each.since < last]

    def show(self, task: int) -> None:
        self.progress[task] = self.unseen.pop(task)

    def read_progress(self, task: int, stable: bool) -> Any:
        if stable and task in self.unseen:
            raise Wait
        return self.progress.get(task)


class Attempt:
    """One attempt of a task: runs the task's steps until it has a report, or dies."""

    def __init__(self, world: "World", driver: "Driver", task: int) -> None:
        self.world = world
        self.driver = driver
        self.task = task
        self.batch = driver.batch
        self.steps: Generator[Any, Any, Any] = world.protocol.task_steps(driver.batch, task)
        self.pending = next(self.steps)
        self.alive = True

    def step(self) -> None:
        try:
            answer = self.world.answer(self.pending, self)
            self.pending = self.steps.send(answer)
        except StopIteration as stop:
            self.alive = False
            self.driver.take(self, stop.value)
        except (Fenced, UserError) as error:
            self.alive = False
            self.driver.failed(self, error)


class Driver:
    """Spark's side: batch after batch, tasks, the sink's commit, the commit log."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        self.count = world.faults.counts[number % len(world.faults.counts)]
        self.error: Exception | None = None
        self.batch = 0
        self.tries = 0
        self._next_batch()

    def _next_batch(self) -> None:
        logged = self.world.commit_log
        self.batch = next(n for n in range(self.world.batches + 1) if n not in logged)
        self.commit: Generator[Any, Any, Any] | None = None
        self.ended: dict[Any, bool] = {}
        self.deciding: int | None = None
        self.reports: dict[int, Any] = {}
        self.attempts: dict[int, Attempt] = {}
        if self.batch == self.world.batches:
            self.alive = False
            return
        for task in range(self.count):
            self.start(task)

    def start(self, task: int) -> None:
        self.attempts[task] = attempt = Attempt(self.world, self, task)
        self.world.attempts.append(attempt)

    def take(self, attempt: Attempt, report: Any) -> None:
        if not self.alive or self.attempts.get(attempt.task) is not attempt:
            return  # nobody waits for this attempt any more
        self.reports[attempt.task] = report
        if len(self.reports) == self.count:
            self.commit = self.world.protocol.commit_steps(self.batch, list(self.reports.values()))
            self.pending = next(self.commit)

    def failed(self, attempt: Attempt, error: Exception) -> None:
        if not self.alive or self.attempts.get(attempt.task) is not attempt:
            return
        self.tries += 1
        if self.tries > 3:
            self._fail(error)
        else:
            self.start(attempt.task)

    def step(self) -> None:
        assert self.commit is not None
        try:
            if type(self.pending).__name__ == "CommitAll":
                if self._commit_one_of(self.pending.producers):
                    answers, self.ended = [self.ended[each] for each in self.pending.producers], {}
                    self.pending = self.commit.send(answers)
                return
            self.world.check_abort(self.batch, self.pending)
            self.pending = self.commit.send(self._answer(self.pending))
        except StopIteration:
            if self.batch in self.world.commit_log:
                self.alive, self.error = False, RuntimeError("someone else has written this batch's commit log")
                return
            self.world.commit_log.add(self.batch)
            self.world.check_readers(self.batch)
            self._next_batch()
        except UserError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Spark lets the sink abort what its tasks have reported."""
        self.alive, self.error = False, error
        steps = self.world.protocol.abort_steps(list(self.reports.values()))
        try:
            step = next(steps)
            while True:
                self.world.check_abort(self.batch, step)
                step = steps.send(self.world.answer(step, None))
        except StopIteration:
            pass
        self.world.abandon(self)

    def _answer(self, step: Any) -> Any:
        kind = type(step).__name__
        if kind == "BeginDeciding":
            self.deciding = self.world.cluster.begin_deciding()
            return None
        if kind == "WriteDecision":
            return self.world.cluster.decide(step.decision, self.deciding)
        return self.world.answer(step, None)

    def _commit_one_of(self, producers: tuple[Any, ...]) -> bool:
        """They go side by side: any of them may be the next, and the driver may die between any two. True: all are."""
        left = [each for each in producers if each not in self.ended]
        chosen = left[self.world.choose(len(left)) if len(left) > 1 else 0]
        self.ended[chosen] = self.world.cluster.end(chosen, True)
        return len(left) == 1


class Abandonment:
    """What the process of a driver does when Spark has told it of the driver's end. It knows of no run in other
    processes.
    """

    def __init__(self, world: "World", run: str) -> None:
        self.world = world
        self.run = run
        self.steps: Generator[Any, Any, Any] = world.protocol.abandon_steps(run)
        self.pending = next(self.steps)
        self.alive = True

    def step(self) -> None:
        self.world.check_abandonment(self.run, self.pending)
        try:
            self.pending = self.steps.send(self.world.answer(self.pending, None))
        except StopIteration:
            self.alive = False


class World:
    def __init__(
        self, protocol: ModuleType, faults: Faults, choose: Choose, *, batches: int = 2, items: int = 4
    ) -> None:
        self.protocol = protocol
        self.faults = faults
        self.choose = choose
        self.batches = batches
        self.items = items
        self.cluster = Cluster(protocol, faults)
        self.commit_log: set[int] = set()
        self.attempts: list[Attempt] = []
        self.drivers: list[Driver] = []
        self.abandonments: list[Abandonment] = []
        self.trace: list[tuple[Any, ...]] = []

    # What the actors ask for

    def answer(self, step: Any, attempt: Attempt | None) -> Any:
        protocol, cluster = self.protocol, self.cluster
        kind = type(step).__name__
        if kind == "ReadDecision":
            return cluster.decision
        if kind == "Begin":
            assert attempt is not None
            return cluster.begin(step.task, str(attempt.driver.number))
        if kind == "ReadProgress":
            return cluster.read_progress(step.task, step.stable)
        if kind == "StoreProgress":
            producer = step.producer
            return cluster.write(producer, [], protocol.Progress(step.batch, producer.producer_id, producer.epoch))
        if kind == "AllOpen":
            return all(cluster.is_open(each) for each in step.producers)
        if kind == "FindOpen":
            return cluster.all_open(step.run)
        if kind == "RunsAgain":
            return False
        if kind == "End":
            return cluster.end(step.producer, step.commit)
        assert kind == "WriteRows"
        assert attempt is not None
        batch, task, driver = attempt.batch, attempt.task, attempt.driver
        # A plan that is not deterministic deals the rows out anew for each driver, and never in the same order again.
        deal = 0 if self.faults.deterministic else driver.number
        written = [(batch, item) for item in range(self.items) if (item + deal) % driver.count == task]
        cluster.write(step.producer, written)
        return protocol.Digest(len(written), hash((deal, *written)))

    # What happens

    def run(self, steps_max: int = 2000) -> str:
        """'done', or the name of the error that every new driver ends with."""
        self.new_driver()
        return self.go_on(steps_max)

    def go_on(self, steps_max: int = 2000) -> str:
        for _ in range(steps_max):
            options = self._options()
            if not options:
                break
            name, act, arguments = options[self.choose(len(options))]
            self.trace.append((name, *arguments, getattr(getattr(act, "__self__", None), "pending", None)))
            try:
                act(*arguments)
            except Wait:
                self._show_one()
            self._check()
        else:
            raise Violation("no end")
        self._check()
        last = self.drivers[-1]
        if len(self.commit_log) < self.batches:
            return type(last.error).__name__
        if Counter(self.cluster.output) != Counter((n, i) for n in range(self.batches) for i in range(self.items)):
            raise Violation(f"committed in Spark, but written: {sorted(self.cluster.output)}")
        return "done"

    def _check(self) -> None:
        output = self.cluster.output
        if len(set(output)) < len(output):  # after every step: who it was is counted only then
            twice = [row for row, count in Counter(output).items() if count > 1]
            raise Violation(f"written twice: {twice}")

    def check_readers(self, batch: int) -> None:
        tasks = self.cluster.hidden(batch)
        if tasks:
            raise Violation(f"batch {batch} is done, but open transactions of tasks {tasks} hide it from readers")

    def check_abort(self, batch: int, step: Any) -> None:
        if type(step).__name__ == "End" and not step.commit and self.cluster.batch_of(step.producer) > batch:
            raise Violation(f"a driver at batch {batch} aborts {step.producer}, which is of a later batch")

    def check_abandonment(self, run: str, step: Any) -> None:
        if type(step).__name__ == "End" and self.cluster.is_open(step.producer):
            other = self.cluster.of(int(step.producer.transactional_id)).run
            if other != run:
                raise Violation(f"at the end of run {run}, {step.producer} is aborted, which is of run {other}")

    def abandon(self, driver: Driver) -> None:
        if self.faults.abandons:
            self.faults.abandons -= 1
            self.abandonments.append(Abandonment(self, str(driver.number)))

    def new_driver(self) -> None:
        self.drivers.append(Driver(self, len(self.drivers)))

    def _options(self) -> list[Option]:
        """The first is the ordinary course of things."""
        order = reversed if self.faults.zombies_sleep else iter
        options: list[Option] = [
            ("driver", driver.step, ()) for driver in order(self.drivers) if driver.alive and driver.commit is not None
        ]
        options += [("task", attempt.step, ()) for attempt in order(self.attempts) if attempt.alive]
        options += [("an end", each.step, ()) for each in self.abandonments if each.alive]
        current = self.drivers[-1]
        if not current.alive and len(self.commit_log) < self.batches and len(self.drivers) < 8:
            options.append(("a new driver", self.new_driver, ()))
        return options + self._faults(current)

    def _faults(self, current: Driver) -> list[Option]:
        options: list[Option] = []
        left = self.faults
        if current.alive and left.crashes:
            options.append(("crash", self.replace, (current, False)))
        if current.alive and left.zombies:
            options.append(("a second driver", self.replace, (current, True)))
        if current.alive and left.lost_attempts and current.commit is None:
            options += [
                ("given up", self._give_up, (current, task)) for task, it in current.attempts.items() if it.alive
            ]
        if left.timeouts:
            opened = [task for task, transaction in self.cluster.transactions.items() if transaction.opened]
            options += [("timed out", self._time_out, (task,)) for task in opened]
        if left.forgets and self.cluster.decision is not None:
            options.append(("the decision is deleted", self._forget, ()))
        if self.cluster.unseen:
            options.append(("offsets show", self._show_one, ()))
        return options

    def _forget(self) -> None:
        self.faults.forgets -= 1
        self.cluster.decision = None

    def replace(self, current: Driver, zombie: bool) -> None:
        """The tasks of a driver that crashed may go on for a while: nobody takes their reports."""
        if zombie:
            self.faults.zombies -= 1
        else:
            self.faults.crashes -= 1
            current.alive = False
        self.abandon(current)
        self.new_driver()

    def _give_up(self, current: Driver, task: int) -> None:
        self.faults.lost_attempts -= 1
        current.start(task)

    def _time_out(self, task: int) -> None:
        self.faults.timeouts -= 1
        self.cluster.abort(task)

    def _show_one(self) -> None:
        if self.cluster.unseen:
            self.cluster.show(min(self.cluster.unseen))
