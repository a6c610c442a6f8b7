"""The scenario's `speculation:` section."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from planner.records import Speculation

MOST_DRAFTS = 16


def _between(least: float, most: float, what: str, whole: bool = False) -> Callable[[Any], Any]:
    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or (whole and value != int(value)):
            raise ValueError(f"{value!r} is not {what}")
        if not least <= value <= most:
            raise ValueError(f"{value!r} is out of range; want {what} from {least:g} to {most:g}")
        return value

    return read


def _number(least: float, most: float, what: str) -> Any:
    schema = {"type": "number", "minimum": least, "maximum": most}
    return BeforeValidator(_between(least, most, what)), WithJsonSchema(schema)


Drafts = Annotated[
    int,
    BeforeValidator(_between(1, MOST_DRAFTS, "a number of drafted tokens", whole=True)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_DRAFTS}),
]
Layers = Annotated[
    int,
    BeforeValidator(_between(1, 1000, "a number of layers", whole=True)),
    WithJsonSchema({"type": "integer", "minimum": 1}),
]
Accepted = Annotated[float, *_number(0, MOST_DRAFTS, "accepted drafts of a step")]
Rate = Annotated[float, *_number(0, 1, "an acceptance rate")]
Imbalance = Annotated[float, *_number(1, 100, "tokens of the fullest expert rank over the mean")]


class SpeculationKeys(BaseModel):
    """Speculative decoding: `draft_tokens` a step, of which `accepted_tokens` are kept, or each with the same rate."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    draft_tokens: Drafts
    accepted_tokens: Accepted | None = None
    acceptance_rate: Rate | None = None
    draft_layers: Layers = 1

    def record(self) -> Speculation:
        """As a record. ValueError when acceptance is given twice or not at all, or is more than is drafted."""
        if (self.accepted_tokens is None) == (self.acceptance_rate is None):
            raise ValueError("needs accepted_tokens or acceptance_rate, one of them")
        if self.acceptance_rate is not None:
            accepted = sum(self.acceptance_rate**i for i in range(1, self.draft_tokens + 1))
        else:
            accepted = self.accepted_tokens or 0.0
        if accepted > self.draft_tokens:
            raise ValueError(f"accepts {accepted:g} tokens of {self.draft_tokens} drafted; it can keep no more")
        return Speculation(self.draft_tokens, float(accepted), self.draft_layers)
