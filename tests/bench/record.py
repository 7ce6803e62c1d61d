"""What was measured: numbers by contestant and round, their medians, and ratios within a round."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Pair:
    """A ratio to show, of one contestant to another, and what it is to reach or, where less is
    better, not to exceed."""

    of: str
    to: str
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """How one contestant did by another in each round: what disturbs a round disturbs both."""

    of: str
    to: str
    rounds: list[float]
    goal: float | None = None

    @property
    def median(self) -> float:
        return median(self.rounds)


@dataclass(slots=True)
class Comparison:
    """Contestants that were measured in turn, round by round; the reference's number is 1."""

    case: str
    title: str
    unit: str
    reference: str
    less_is_better: bool = False
    seconds: int = 0
    pairs: Sequence[Pair] = ()
    limits: dict[str, float] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    details: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float, details: dict[str, float] | None = None) -> None:
        self.values.setdefault(name, []).append(value)
        if details:
            self.details.setdefault(name, []).append(details)

    def median(self, name: str) -> float:
        return median(self.values[name])

    def ratio(self, of: str, to: str, goal: float | None = None) -> Ratio | None:
        """Return the ratio by rounds, or None when one of the two was not measured in each."""
        one, other = self.values.get(of), self.values.get(to)
        if not one or not other or len(one) != len(other) or not all(other):
            return None
        return Ratio(of, to, [a / b for a, b in zip(one, other, strict=True)], goal)

    def ratios(self) -> list[Ratio]:
        """Return those of the pairs, then those of the other contestants to the reference."""
        pairs: dict[tuple[str, str], float | None] = {(p.of, p.to): p.goal for p in self.pairs}
        for name in self.values:
            told = any(name in pair and self.reference in pair for pair in pairs)
            if name != self.reference and not told:
                pairs[name, self.reference] = None
        found = [self.ratio(of, to, goal) for (of, to), goal in pairs.items()]
        return [ratio for ratio in found if ratio is not None]

    def meets(self, value: float, goal: float) -> bool:
        return value <= goal if self.less_is_better else value >= goal

    def as_json(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "title": self.title,
            "unit": self.unit,
            "seconds": self.seconds,
            "less_is_better": self.less_is_better,
            "reference": self.reference,
            "values": self.values,
            "medians": {name: self.median(name) for name in self.values},
            "ratios": [
                {
                    "of": ratio.of,
                    "to": ratio.to,
                    "median": ratio.median,
                    "rounds": ratio.rounds,
                    "goal": ratio.goal,
                }
                for ratio in self.ratios()
            ],
            "limits": self.limits,
            "details": self.details,
            "failures": self.failures,
        }
