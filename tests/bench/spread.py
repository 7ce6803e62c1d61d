"""The cases of what divides a load: many queues, and many users who sign."""

from collections.abc import Sequence
from contextlib import ExitStack

from bench import peers
from bench.load import Shape
from bench.peers import BEFORE, ELASTICMQ, ELASTICMQ_PERSISTENT, JVMS, SKIPMQ_NAME, Broker
from bench.record import Comparison, Pair, WarmUp
from bench.run import Run, warm_up

# Groups of all FIFO queues together.
_GROUPS = {"standard": 0, "FIFO": 128}
# By kind, queues and connections: rates against ElasticMQ in memory, and persistent.
_RATES = {
    ("standard", 20, 64): (1.1, 2),
    ("standard", 20, 16): (0.7, 1.5),
    ("standard", 100, 64): (0.9, 1.5),
    ("FIFO", 20, 64): (0.8, 2),
}
# By kind: processor time a request on 20 queues against 1, of the node and of PostgreSQL.
_TIMES = {"standard": (1.15, 1.6), "FIFO": (1.5, 1.5)}
# Of these to one.
_MANY_QUEUES = 20


def queues(run: Run) -> None:
    """Single messages on one queue and on many in turn, against the peers on as many."""
    names = (SKIPMQ_NAME, BEFORE, ELASTICMQ, ELASTICMQ_PERSISTENT)
    with run.brokers(*names) as brokers:
        absent = dict(run.absent)
        for kind in run.form.sizes["kinds"]:
            run.absent = dict(absent)
            warm = _warmed(run, brokers, kind)
            for connections in run.form.sizes["connections"]:
                _queues(run, {name: brokers[name] for name in warm}, warm, kind, connections)


def _warmed(run: Run, brokers: dict[str, Broker], kind: str) -> dict[str, WarmUp]:
    """Warm each broker up once for a kind of queues, instead of once for each number of them."""
    found = {}
    numbers, connections = run.form.sizes["queues"], max(run.form.sizes["connections"])
    shape = Shape(1, groups=_GROUPS[kind], connections=connections)
    task = run.progress.add_task("", total=len(brokers))
    for name, broker in brokers.items():
        run.progress.update(task, description=f"{run.case}: {kind}: warming up: {name}")
        with run.noting(name):
            measure = run.cycles(broker, shape, number=numbers[len(numbers) // 2])
            found[name] = warm_up(measure, run.form, jvm=name in JVMS)
        run.progress.advance(task)
    run.progress.remove_task(task)
    return found


def _queues(
    run: Run, brokers: dict[str, Broker], warm: dict[str, WarmUp], kind: str, connections: int
) -> None:
    numbers = run.form.sizes["queues"]
    shape = Shape(1, groups=_GROUPS[kind], connections=connections)
    brokers_of = {_of(name, n, "queue"): name for n in numbers for name in brokers}
    pairs = []
    for number in numbers:
        goals = _RATES.get((kind, number, connections), (None, None))
        others = ((ELASTICMQ, goals[0]), (ELASTICMQ_PERSISTENT, goals[1]), (BEFORE, None))
        ours = _of(SKIPMQ_NAME, number, "queue")
        pairs += [Pair(ours, _of(other, number, "queue"), goal) for other, goal in others]
    groups = f", {shape.groups} groups" * bool(shape.groups)
    found = run.compare(
        f"{kind}{groups}, {connections} connections", "messages/s",
        {
            _of(name, number, "queue"): run.cycles(broker, shape, number=number)
            for number in numbers
            for name, broker in brokers.items()
        },
        _of(SKIPMQ_NAME, 1, "queue"), pairs=pairs, warm=False,
        warm_ups={contestant: warm[name] for contestant, name in brokers_of.items()},
    )  # fmt: skip
    _processor(run, found, "queue", _MANY_QUEUES, _TIMES[kind])


def senders(run: Run) -> None:
    """Requests on one queue that one user signs, and many in turn, on a node of one worker."""
    users = (1, run.form.sizes["users"])
    run.absent = {}
    with ExitStack() as stack:
        nodes = {}
        for name, program in run.programs().items():
            with run.noting(name):
                database = run.database(stack, program)
                node = peers.skipmq(database, workers=1, signed=True, program=program)
                keys = peers.keys(database, max(users), program)
                nodes[name] = stack.enter_context(node), database, keys
        for connections in run.form.sizes["connections"]:
            shape = Shape(1, connections=connections)
            found = run.compare(
                f"{connections} connections", "requests/s",
                {
                    _of(name, number, "user"): run.signed(node, database, keys[:number], shape)
                    for number in users
                    for name, (node, database, keys) in nodes.items()
                },
                _of(SKIPMQ_NAME, 1, "user"), pairs=_divided("user", users[1], (None,))[0],
            )  # fmt: skip
            _processor(run, found, "user", users[1], (None, None))


def _processor(
    run: Run, found: Comparison, unit: str, many: int, goals: Sequence[float | None]
) -> None:
    """Compare by the processor time a request what was measured: many against one."""
    details = {"broker_us": "the broker", "database_us": "PostgreSQL"}
    for (detail, whose), pairs in zip(details.items(), _divided(unit, many, goals), strict=True):
        title = f"{whose}'s processor time a request, {found.title}"
        run.derive(found, detail, title, "µs", _of(SKIPMQ_NAME, 1, unit), pairs=pairs)


def _divided(unit: str, many: int, goals: Sequence[float | None]) -> list[list[Pair]]:
    """Return the ratios of many queues or users to one, for each of the goals."""
    return [
        [
            Pair(_of(SKIPMQ_NAME, many, unit), _of(SKIPMQ_NAME, 1, unit), goal),
            Pair(_of(BEFORE, many, unit), _of(BEFORE, 1, unit)),
        ]
        for goal in goals
    ]


def _of(name: str, number: int, unit: str) -> str:
    """Name a contestant under a load of so many queues or users."""
    return f"{name}, {number:,} {unit}{'s' * (number != 1)}"
