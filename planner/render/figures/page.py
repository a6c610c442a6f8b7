"""Figures as one page that needs nothing else: no script, no font, no network. Each can be read without seeing it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from planner.render.figures.figure import Figure
from planner.render.svg import renamed

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """\
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: #fff; color: #1a1a1a; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.3; }
figure { margin: 0 0 2rem; } figure svg { display: block; width: 100%; height: auto; }
@media print { main { max-width: none; padding: 0; } figure { break-inside: avoid; } }
"""


def page(title: str, figures: Sequence[Figure], version: str) -> str:
    """The figures under a title, one below the other; everything that a file says is escaped."""
    shown = "\n".join(
        f'<figure id="{escape(figure.kind)}">\n{renamed(figure.svg(), index)}</figure>'
        for index, figure in enumerate(figures)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{shown}
<footer><p>planner {escape(version)}. Predictions, not measurements: intervals say how sure they are.</p></footer>
</main>
</body>
</html>
"""
