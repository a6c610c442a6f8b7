"""One table of every speed measured, after the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Row = tuple[str, str, str]
_ROWS: list[Row] = []


@pytest.fixture
def report() -> Callable[[str, str, str], None]:
    """Take (what, measured, limit) for the table."""

    def add(what: str, measured: str, limit: str) -> None:
        _ROWS.append((what, measured, limit))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _ROWS:
        return
    table = [("speed and size", "measured", "limit"), *_ROWS]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    terminalreporter.write_line("")
    for what, measured, limit in table:
        terminalreporter.write_line(f"{what:<{widths[0]}}  {measured:>{widths[1]}}  {limit:>{widths[2]}}")
