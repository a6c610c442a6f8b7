"""`planner trace sessions`: reuse of chats or agents that are described, where there is no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from planner.cli.options import OutOption, quantity
from planner.cli.trace import blocks_list

if TYPE_CHECKING:
    from planner.reuse import SubAgents

_CHILD_COUNTS = ("children", "turns")
_CHILD_NUMBERS = ("every_turns", "shared_tokens", "first_tokens", "growth_tokens", "output_tokens")
_CHILD_KEYS = (*_CHILD_COUNTS, *_CHILD_NUMBERS, "gap")


def trace_sessions(
    users: Annotated[float, typer.Option("--users", metavar="N", help="Sessions alive at a time.")],
    turns: Annotated[int, typer.Option("--turns", metavar="N", help="Requests of one session.")],
    growth_tokens: Annotated[
        float, typer.Option("--growth-tokens", metavar="N", help="What the user or a tool adds per turn.")
    ],
    output_tokens: Annotated[float, typer.Option("--output-tokens", metavar="N", help="Answer, sent again next turn.")],
    think: Annotated[str, typer.Option("--think", metavar="TIME", help='Pause before the next turn, e.g. "30 s".')],
    first_tokens: Annotated[
        float, typer.Option("--first-tokens", metavar="N", help="Own part of the first prompt.")
    ] = 1000.0,
    system_tokens: Annotated[
        float, typer.Option("--system-tokens", metavar="N", help="Prompt that all sessions share.")
    ] = 0.0,
    think_scv: Annotated[
        float, typer.Option("--think-scv", metavar="X", help="Squared coefficient of variation of pauses; 0: alike.")
    ] = 1.0,
    service: Annotated[str, typer.Option("--service", metavar="TIME", help="Time to answer.")] = "0 s",
    sub_agents: Annotated[
        str | None,
        typer.Option("--sub-agents", metavar="KEY=VALUE,...", help="Bursts of children: " + ", ".join(_CHILD_KEYS)),
    ] = None,
    block_tokens: Annotated[int, typer.Option("--block-tokens", metavar="N", help="Tokens of a cache block.")] = 16,
    capacity_blocks: Annotated[
        str | None, typer.Option("--capacity-blocks", metavar="N,N", help="Cache sizes of the curve; 20 between else.")
    ] = None,
    shape: Annotated[
        Literal["table", "json", "csv"],
        typer.Option("--format", help="table for people, json for programs, csv: the hit curve."),
    ] = "table",
    out: OutOption = None,
) -> int:
    """Describe sessions instead of a trace: working set, hit ratio by cache size, and users at the cliff.

    Each turn sends everything so far, and finds what the cache kept for the pause between turns. The cliff is the
    number of users beyond which half of the returning turns find nothing of their own.

    Exit code 0, or 2 when a number is at fault.
    """
    from planner.cli.formats import write
    from planner.errors import InputError
    from planner.render.sessions import to_csv, to_text
    from planner.reuse import Session, session_reuse
    from planner.review.sessions import sessions_document

    capacities = blocks_list(capacity_blocks)
    try:
        session = Session(
            users=users,
            turns=turns,
            system_tokens=system_tokens,
            first_tokens=first_tokens,
            growth_tokens=growth_tokens,
            output_tokens=output_tokens,
            think_s=quantity("--think", think, "seconds"),
            think_scv=think_scv,
            service_s=quantity("--service", service, "seconds"),
            sub_agents=_sub_agents(sub_agents),
        )
        reuse = session_reuse(session, block_tokens)
    except ValueError as error:
        raise InputError(str(error)) from None
    write(sessions_document(reuse, capacities), shape, out, to_text, {"csv": to_csv})
    return 0


def _sub_agents(text: str | None) -> SubAgents | None:
    if text is None:
        return None
    from planner.files.nearest import did_you_mean
    from planner.reuse import SubAgents
    from planner.units import shown

    given: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        key = name.strip().replace("-", "_")
        if key not in _CHILD_KEYS:
            raise ValueError(f"--sub-agents: {shown(name.strip())} is unknown; {did_you_mean(key, _CHILD_KEYS)}")
        if key == "gap":
            given["gap_s"] = quantity("--sub-agents gap", value.strip(), "seconds")
            continue
        try:
            given[key] = int(value) if key in _CHILD_COUNTS else float(value)
        except ValueError:
            raise ValueError(f"--sub-agents: {key} is {shown(value)}; want a number") from None
    missing = [key for key in _CHILD_KEYS if key not in given and f"{key}_s" not in given]
    if missing:
        raise ValueError(f"--sub-agents: needs {', '.join(missing)} too")
    return SubAgents(**given)
