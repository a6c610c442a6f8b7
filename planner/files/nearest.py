"""The valid name a mistyped one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LISTED = 12  # names a message lists in full before it stops


def nearest(name: str, known: Iterable[str]) -> str:
    """The closest of `known` to `name`, ignoring case, or "" when none is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    wanted = name.casefold()[:200]
    matches = get_close_matches(wanted, folded, n=1, cutoff=0.6)
    if not matches:
        matches = [key for key in sorted(folded, key=len) if len(wanted) > 2 and (wanted in key or key in wanted)]
    return folded[matches[0]] if matches else ""


def did_you_mean(name: str, known: Iterable[str], what: str = "known") -> str:
    """The end of a message about an unknown name: the nearest one, else the list of them."""
    names = list(known)
    near = nearest(name, names)
    if near:
        return f'did you mean "{near}"?'
    if not names:
        return f"none is {what}"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{what}: {', '.join(names[:_LISTED])}{more}"
