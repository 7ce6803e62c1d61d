"""Finds regular expressions that take more than linear time on some text.

A backtracking engine tries every way in which an expression can read a text that it does not match
in the end. Their number grows faster than the text exactly where there are two places p and q, both
within loops, and a word that leads from p to p, from p to q and from q to q (Weber and Seidl, "On
the degree of ambiguity of finite automata", 1991), or where one loop lies directly in another. This
looks for them in the automaton of Glushkov, so that nothing has to be measured.
"""

import re
from collections.abc import Callable, Iterator
from itertools import product
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

# Counted repetitions up to this stand for themselves, longer ones for any number.
_FEW = 3
_ATOMS = {ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN}
_REPEATS = {ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT}


class _Part(NamedTuple):
    """A part of an expression: the places where it begins and ends, whether it may be empty."""

    first: frozenset[int]
    last: frozenset[int]
    empty: bool


_NOTHING = _Part(frozenset(), frozenset(), empty=True)


class _Automaton:
    """The places of an expression, which of them follow which, and the characters of each."""

    def __init__(self, pattern: re.Pattern[str], *, searches: bool) -> None:
        self._ignores_case = bool(pattern.flags & re.IGNORECASE)
        self._is_dotall = bool(pattern.flags & re.DOTALL)
        # Of each place, what its character must be; of none where no character fits.
        self._atoms: list[tuple[Any, Any] | None] = []
        self.follow: dict[int, set[int]] = {}
        self.nested = False
        whole = self._sequence(list(parser.parse(pattern.pattern, pattern.flags)))
        self.last = whole.last
        if searches:  # Whatever precedes the match is read one character after another.
            start = self._place((ops.NOT_LITERAL, -1))
            self.follow[start] |= {start, *whole.first}

    def letters(self) -> list[frozenset[int]]:
        """Return, for each kind of character, the places that read it."""
        kinds = {
            frozenset(place for place, atom in enumerate(self._atoms) if self._reads(atom, each))
            for each in self._alphabet()
        }
        return list(kinds)

    def _alphabet(self) -> set[int]:
        found = {*range(128), 0xE9, 0x4E00, 0x1F600}
        for op, value in filter(None, self._atoms):
            for kind, item in value if op is ops.IN else [(op, value)]:
                if kind is ops.RANGE:
                    found |= {item[0], item[1], item[0] - 1, item[1] + 1}
                elif kind in (ops.LITERAL, ops.NOT_LITERAL):
                    found |= {item, item + 1}
        return {each for each in found if 0 <= each <= 0x10FFFF}

    def _reads(self, atom: tuple[Any, Any] | None, character: int) -> bool:
        if atom is None:
            return False
        text = chr(character)
        same = {character}
        if self._ignores_case:
            same |= {ord(each) for each in (text.lower(), text.upper()) if len(each) == 1}
        op, value = atom
        if op is ops.ANY:
            return self._is_dotall or text != "\n"
        if op is ops.LITERAL:
            return value in same
        if op is ops.NOT_LITERAL:
            return value not in same
        negated = bool(value) and value[0][0] is ops.NEGATE
        return negated != any(_is_in(item, same, text) for item in value[negated:])

    def _place(self, atom: tuple[Any, Any] | None) -> int:
        self._atoms.append(atom)
        self.follow[len(self._atoms) - 1] = set()
        return len(self._atoms) - 1

    def _sequence(self, items: list[tuple[Any, Any]]) -> _Part:
        whole = _NOTHING
        for item in items:
            whole = self._joined(whole, self._part(*item))
        return whole

    def _joined(self, left: _Part, right: _Part) -> _Part:
        for place in left.last:
            self.follow[place] |= right.first
        return _Part(
            left.first | right.first if left.empty else left.first,
            left.last | right.last if right.empty else right.last,
            left.empty and right.empty,
        )

    def _part(self, op: Any, value: Any) -> _Part:  # noqa: PLR0911 - each kind has one.
        if op in _ATOMS:
            place = frozenset({self._place((op, value))})
            return _Part(place, place, empty=False)
        if op in _REPEATS:
            return self._repeated(*value)
        if op is ops.BRANCH:
            parts = [self._sequence(list(each)) for each in value[1]]
            return _Part(
                frozenset().union(*(each.first for each in parts)),
                frozenset().union(*(each.last for each in parts)),
                any(each.empty for each in parts),
            )
        if op is ops.SUBPATTERN:
            return self._sequence(list(value[-1]))
        if op is ops.ATOMIC_GROUP:
            return self._sequence(list(value))
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            return _NOTHING
        if op is ops.AT:  # It may fail: what precedes it is not the end.
            place = frozenset({self._place(None)})
            return _Part(place, place, empty=False) if value is ops.AT_END else _NOTHING
        raise NotImplementedError(op)

    def _repeated(self, least: int, most: Any, body: Any) -> _Part:
        whole = _NOTHING
        copies = min(least, _FEW)
        for _ in range(copies):
            whole = self._joined(whole, self._sequence(list(body)))
        if most is not ops.MAXREPEAT and most <= _FEW:
            for _ in range(most - copies):
                part = self._sequence(list(body))
                whole = self._joined(whole, part._replace(empty=True))
            return whole
        part = self._sequence(list(body))
        for place in part.last:
            # The same step by an inner loop and by this one: two ways to read one text.
            self.nested |= bool(self.follow[place] & part.first)
            self.follow[place] |= part.first
        self.nested |= part.empty
        return self._joined(whole, part._replace(empty=True))


def _is_in(item: tuple[Any, Any], same: set[int], text: str) -> bool:
    kind, value = item
    if kind is ops.LITERAL:
        return value in same
    if kind is ops.RANGE:
        return any(value[0] <= each <= value[1] for each in same)
    return _CATEGORIES[value](text)


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    ops.CATEGORY_DIGIT: str.isdecimal,
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_WORD: lambda text: text.isalnum() or text == "_",
    ops.CATEGORY_NOT_SPACE: lambda text: not text.isspace(),
}


def is_ambiguous(pattern: re.Pattern[str], *, searches: bool, whole: bool = True) -> bool:
    """Tell whether reading some text with an expression can take more than linear time.

    `searches` says that a match may begin anywhere, `whole` that it must reach the end of the text:
    otherwise nothing is tried again before the last place where the expression was satisfied.
    """
    automaton = _Automaton(pattern, searches=searches)
    if automaton.nested:
        return True
    letters = automaton.letters()
    follow = automaton.follow
    looping = [place for place in follow if _reaches_itself(follow, place)]
    satisfied = frozenset() if whole else automaton.last
    unsatisfied = {p: others - satisfied for p, others in follow.items() if p not in satisfied}
    lasting = [place for place in unsatisfied if _reaches_itself(unsatisfied, place)]
    return any(
        _reaches(follow, letters, (p, p, q), (p, q, q))
        for p, q in product(looping, lasting)
        if p != q
    )


def _reaches_itself(follow: dict[int, set[int]], place: int) -> bool:
    seen: set[int] = set()
    waiting = [*follow[place]]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting += follow[each]
    return place in seen


def _reaches(
    follow: dict[int, set[int]],
    letters: list[frozenset[int]],
    start: tuple[int, int, int],
    end: tuple[int, int, int],
) -> bool:
    """Tell whether one word leads from three places to three others."""
    seen = {start}
    waiting = [start]
    while waiting:
        for found in _steps(follow, letters, waiting.pop()):
            if found == end:
                return True
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return False


def _steps(
    follow: dict[int, set[int]], letters: list[frozenset[int]], places: tuple[int, int, int]
) -> Iterator[tuple[int, int, int]]:
    a, b, c = (follow[place] for place in places)
    for readers in letters:
        yield from product(a & readers, b & readers, c & readers)
