"""What was measured: numbers by contestant and round, their medians, and ratios within a round."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Pair:
    """A ratio to show, of one contestant to another, and its goal: the least, or the most where
    less is better."""

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


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The warm-up of a contestant: its windows' rates, and whether the last two were alike."""

    seconds: int
    rates: list[float]
    steady: bool

    def as_json(self) -> dict[str, Any]:
        first, last = (round(self.rates[i], 1) for i in (0, -1))
        return {"seconds": self.seconds, "first": first, "last": last, "steady": self.steady}


@dataclass(slots=True)
class Comparison:
    """Contestants that were measured in turn, round by round; ratios are shown to the reference."""

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
    warm_ups: dict[str, WarmUp] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float, details: dict[str, float] | None = None) -> None:
        self.values.setdefault(name, []).append(value)
        if details:
            self.details.setdefault(name, []).append(details)

    def median(self, name: str) -> float:
        return median(self.values[name])

    def detail_medians(self, name: str) -> dict[str, float]:
        """Return the median of each detail of a contestant over the rounds."""
        rounds = self.details.get(name, [])
        return {
            key: median(found[key] for found in rounds) for key in (rounds[0] if rounds else ())
        }

    def ratio(self, of: str, to: str, goal: float | None = None) -> Ratio | None:
        """Return the ratio by rounds, or None when one of the two was not measured in each."""
        one, other = self.values.get(of), self.values.get(to)
        if not one or not other or len(one) != len(other) or not all(other):
            return None
        return Ratio(of, to, [a / b for a, b in zip(one, other, strict=True)], goal)

    def ratios(self) -> list[Ratio]:
        """Return the ratios of the pairs that were measured."""
        found = [self.ratio(pair.of, pair.to, pair.goal) for pair in self.pairs]
        return [ratio for ratio in found if ratio is not None]

    def as_json(self) -> dict[str, Any]:
        """Return medians and extremes; what a single round gave is not kept."""
        return {
            "case": self.case,
            "title": self.title,
            "unit": self.unit,
            "seconds": self.seconds,
            "rounds": max((len(values) for values in self.values.values()), default=0),
            "less_is_better": self.less_is_better,
            "contestants": {
                name: _spread(values)
                | {key: _rounded(value) for key, value in self.detail_medians(name).items()}
                for name, values in self.values.items()
            },
            "ratios": [
                {"of": ratio.of, "to": ratio.to, "goal": ratio.goal} | _spread(ratio.rounds)
                for ratio in self.ratios()
            ],
            "limits": self.limits,
            "warm_up": {name: found.as_json() for name, found in self.warm_ups.items()},
            "failures": self.failures,
        }


def _spread(values: Sequence[float]) -> dict[str, float]:
    found = {"median": median(values), "lowest": min(values), "highest": max(values)}
    return {name: _rounded(value) for name, value in found.items()}


def _rounded(value: float) -> float:
    """Return four significant digits, or all before the point."""
    return float(f"{value:.4g}") if abs(value) < 10_000 else float(round(value))
