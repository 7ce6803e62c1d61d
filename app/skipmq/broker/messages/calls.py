"""Calls of an SQL function for one queue, or for several in one statement."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from skipmq.database.statement import BIGINT, BIGINTS, INTEGERS, Kind, Statement


class Items(NamedTuple):
    """An argument that is an array: that of several calls has the elements of all."""

    kind: Kind


class Calls:
    """Calls of a function whose first argument is a queue, and the others are these.

    An argument that is not Items is the same for all calls. Rows are ordered by call and place.
    """

    def __init__(self, columns: str, function: str, *arguments: Items | Kind) -> None:
        kinds = [each if isinstance(each, Kind) else each.kind for each in arguments]
        numbers = [f"${number}" for number in range(1, len(arguments) + 2)]
        self._one = Statement(
            f"select {columns} from skipmq.{function}({', '.join(numbers)}) r"
            " order by r.place",
            BIGINT, *kinds, since_2000=True,
        )  # fmt: skip
        # After the queues, and the first and the last of the items of each call.
        given = [
            f"(${number})[c.first:c.last]" if isinstance(each, Items) else f"${number}"
            for number, each in enumerate(arguments, 4)
        ]
        self._several = Statement(
            f"select {columns} from unnest($1, $2, $3)"
            " with ordinality c (queue_id, first, last, call)"
            f" cross join lateral skipmq.{function}(c.queue_id, {', '.join(given)}) r"
            " order by c.call, r.place",
            BIGINTS, INTEGERS, INTEGERS, *kinds, since_2000=True,
        )  # fmt: skip

    def statement(
        self, queues: Sequence[tuple[int, int]], *values: Any
    ) -> tuple[Statement, tuple[Any, ...]]:
        """Return the statement for these queues with the number of items of each, and parameters.

        `values` are the arguments.
        """
        if len(queues) == 1:
            return self._one, (queues[0][0], *values)
        last = list(accumulate([items for _, items in queues]))
        first = [1, *[each + 1 for each in last[:-1]]]
        return self._several, ([queue_id for queue_id, _ in queues], first, last, *values)
