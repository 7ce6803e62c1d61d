"""Calls of an SQL function for one queue, or for several in one statement."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from skipmq.database import Statement
from skipmq.database.statement import BIGINT, BIGINTS, INTEGERS, Kind


class Items(NamedTuple):
    """An argument that is an array: that of several calls has the elements of all."""

    kind: Kind


class Own(NamedTuple):
    """An argument that each call has one of: its kind, and that of an array of them."""

    kind: Kind
    several: Kind


class Calls:
    """Calls of a function whose first argument is a queue, and the others are these.

    An argument that is neither Items nor Own is the same for all calls. The rows of several calls
    end with the number of the call, from 1.
    """

    def __init__(
        self, columns: str, function: str, *arguments: Items | Own | Kind, is_ordered: bool = False
    ) -> None:
        self._owns = {n for n, each in enumerate(arguments) if isinstance(each, Own)}
        kinds = [each if isinstance(each, Kind) else each.kind for each in arguments]
        kinds_of_several = [
            each.several if isinstance(each, Own) else kind
            for each, kind in zip(arguments, kinds, strict=True)
        ]
        numbers = [f"${number}" for number in range(1, len(arguments) + 2)]
        self._one = Statement(
            f"select {columns} from skipmq.{function}({', '.join(numbers)})"  # noqa: S608
            f" r {'order by r.place' if is_ordered else ''}",
            BIGINT, *kinds, since_2000=True,
        )  # fmt: skip
        # After the queues, and the first and the last of the items of each call.
        columns_of_calls, given = ["$1", "$2", "$3"], ["c.queue_id"]
        names = ["queue_id", "first", "last"]
        for number, each in enumerate(arguments, 4):
            if isinstance(each, Items):
                given.append(f"(${number})[c.first:c.last]")
            elif isinstance(each, Own):
                columns_of_calls.append(f"${number}")
                names.append(f"own_{number}")
                given.append(f"c.own_{number}")
            else:
                given.append(f"${number}")
        self._several = Statement(
            f"select {columns}, c.call from unnest({', '.join(columns_of_calls)})"  # noqa: S608
            f" with ordinality c ({', '.join(names)}, call)"
            f" cross join lateral skipmq.{function}({', '.join(given)}) r"
            f" {'order by c.call, r.place' if is_ordered else ''}",
            BIGINTS, INTEGERS, INTEGERS, *kinds_of_several, since_2000=True,
        )  # fmt: skip

    def statement(
        self, queues: Sequence[tuple[int, int]], *values: Any
    ) -> tuple[Statement, tuple[Any, ...]]:
        """Return the statement for these queues with the number of items of each, and parameters.

        `values` are the arguments; what each call has its own of is a list.
        """
        if len(queues) == 1:
            own = self._owns
            return self._one, (
                queues[0][0],
                *[value[0] if n in own else value for n, value in enumerate(values)],
            )
        last = list(accumulate([items for _, items in queues]))
        first = [1, *[each + 1 for each in last[:-1]]]
        return self._several, ([queue_id for queue_id, _ in queues], first, last, *values)
