"""What pages are made of: a style, tables that turn into lists on narrow screens, bars. No script, font or network.

Colors are written once as pairs of paper and ink, for light and dark screens; paper is always light.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from planner.render.section import Section

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1a1a1a",
    "quiet": "#5a5a5a",
    "line": "#cccccc",
    "bar": "#2f6db0",
    "pass": "#1a7f37",
    "risk": "#8a5a00",
    "fail": "#b3261e",
}
DARK = {
    "paper": "#14171a",
    "ink": "#e8e8e8",
    "quiet": "#a8b0b8",
    "line": "#3d444b",
    "bar": "#79a7dd",
    "pass": "#4fc06a",
    "risk": "#d9a441",
    "fail": "#ff8a80",
}
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
BAR_WIDTH, BAR_HEIGHT = 160, 14
LONG_CELL = 34  # characters from which a cell is prose that may wrap
MOST_NARROW_COLUMNS = 3  # of a table that stays one on a narrow screen


def _colors(values: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in values.items())


CONTENT = """\
h1 { font-size: 1.5rem; line-height: 1.3; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
h1, h2, h3, p, td { overflow-wrap: break-word; } td.prose { overflow-wrap: anywhere; }
.pass { color: var(--pass); } .risk { color: var(--risk); } .fail { color: var(--fail); }
.verdict { font-weight: bold; }
.quiet, td small, thead th { color: var(--quiet); }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 3rem; }
.side > *, .wide { min-width: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
td { white-space: nowrap; } td.prose { white-space: normal; min-width: 16rem; }
td small { font-size: .8rem; }
.bar { vertical-align: middle; }
.bar svg { display: block; width: 10rem; height: .9rem; fill: var(--bar); }
svg .track { fill: var(--line); } svg .limit { fill: var(--fail); } svg .value { fill: var(--ink); }
details { margin: 1rem 0; } summary { cursor: pointer; } summary h2 { display: inline; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem; }
figure { margin: 0; } figure svg { display: block; max-width: 100%; height: auto; }
.narrow { display: none; }
@media screen and (max-width: 44rem) { .narrow { display: block; } .broad { display: none; } }
@media (max-width: 44rem) {
  .bar svg { width: 3rem; }
  th, td { padding-right: .6rem; }
  .list table, .list tbody, .list tr { display: block; } .list td { display: inline-block; }
  .list thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  .list tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .list td, .list td.prose { border: 0; min-width: 0; padding: .1rem 0; text-align: left; white-space: normal; }
  .list td { margin-right: .9rem; } .list td:first-child, .list td.prose, .list td.bar { display: block; }
  .list td:first-child { font-weight: 600; } .list .bar svg { width: 100%; max-width: 20rem; }
  .list td[data-name]:not(:first-child)::before { content: attr(data-name) ": "; color: var(--quiet); }
  .list td:empty { display: none; }
}
@media print {
  .wide { overflow: visible; } tr, svg, .side section { break-inside: avoid; } h1, h2, h3 { break-after: avoid; }
  thead { display: table-header-group; } td.prose { min-width: 0; }
  .side { display: flex; flex-wrap: wrap; } .bar svg { width: 6rem; }
  .pictures { grid-template-columns: 1fr 1fr; } figure { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
STYLE = f"""
:root {{ color-scheme: light dark; {_colors(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_colors(DARK)} }} }}
@media print {{ :root {{ color-scheme: light; {_colors(LIGHT)} }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 0; background: var(--paper); color: var(--ink); }}
main {{ max-width: 72rem; margin: 0 auto; padding: 1rem; }}
{CONTENT}footer {{ margin-top: 2rem; font-size: .85rem; color: var(--quiet); }}
@page {{ margin: 15mm; }}
@media print {{ :root {{ font-size: 9.5pt; }} body {{ font-size: 1rem; }} main {{ max-width: none; padding: 0; }} }}
"""
INSIDE = f".planner-result {{ {_colors(LIGHT)} background: var(--paper); color: var(--ink);"


def page(title: str, body: Iterable[str], version: str) -> str:
    """A whole page; `title` is text, `body` is markup. Written in ASCII, so that no stream can garble it."""
    content = "\n".join(body)
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{content}
<footer><p>planner {escape(version)}. Predictions, not measurements: intervals say how sure they are.</p></footer>
</main>
</body>
</html>
"""
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def fragment(content: str) -> str:
    """Markup for a place inside another page; its style stays inside as well."""
    return f'<div class="planner-result">\n<style>\n{INSIDE}\n{CONTENT}}}</style>\n{content}\n</div>\n'


def heading(text: str, level: int) -> str:
    return f"<h{level}>{escape(text)}</h{level}>"


def word(text: str, tone: str) -> str:
    """A verdict; `tone` is pass, risk or fail."""
    return f'<span class="verdict {tone}">{escape(text)}</span>'


# -------------------------------------------------------------------------------------------------------------- tables


def sections_markup(sections: Iterable[Section], level: int) -> str:
    """Every section that says something; those that go `beside` each other stand in one row where there is room."""
    parts: list[str] = []
    beside: list[str] = []
    for section in sections:
        if not section:
            continue
        markup = section_markup(section, level)
        if section.beside:
            beside.append(markup)
            continue
        parts += [*_side(beside), markup]
        beside = []
    return "".join([*parts, *_side(beside)])


def _side(sections: Sequence[str]) -> list[str]:
    return [f'<div class="side">\n{"".join(sections)}</div>\n'] if sections else []


def section_markup(section: Section, level: int) -> str:
    """A section as a heading and a table, its shares as bars in a last column."""
    names = section.head or ("",) * max(map(len, section.rows), default=0)
    head = (*names, section.bar_name) if section.bars else names
    rows = []
    for number, cells in enumerate(section.texts):
        bar = share(section.bars[number], cells[0]) if section.bars else None
        rows.append([*map(cell, cells), *([] if bar is None else [bar])])
    said = "".join(f"\n<p>{escape(text)}</p>" for text in section.said)
    return titled(section.title, level, (table(section.title, head, rows) if rows else "") + said)


def titled(title: str, level: int, body: str) -> str:
    return f"<section>\n{heading(title, level)}\n{body}\n</section>\n"


def cell(text: str) -> str:
    """A text as markup; a second line of it is the smaller one."""
    first, _, second = text.partition("\n")
    return escape(first) + (f"<br><small>{escape(second)}</small>" if second else "")


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of markup under names of text. Tables that are wide turn into lists on a narrow screen."""
    names = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in head)
    body = "\n".join(f"<tr>{''.join(map(_cell, head, row))}</tr>" for row in rows)
    narrow = len(head) - (head[-1] == "") <= MOST_NARROW_COLUMNS and not any(map(_is_prose, _texts(rows)))
    kind = "wide" if narrow else "wide list"
    label = f'role="region" tabindex="0" aria-label="{escape(title)}"'
    headed = f"<thead><tr>{names}</tr></thead>\n" if any(head) else ""
    markup = f"<table>\n{headed}<tbody>\n{body}\n</tbody>\n</table>"
    return f'<div class="{kind}" {label}>\n{markup}\n</div>'


def _texts(rows: Sequence[Sequence[str]]) -> list[str]:
    return [text for row in rows for text in row]


def _is_prose(markup: str) -> bool:
    shown = (re.sub(r"<[^>]*>", "", line) for line in markup.split("<br>"))
    return not markup.startswith("<svg") and max(map(len, shown)) > LONG_CELL


def _cell(name: str, markup: str) -> str:
    kind = "bar" if markup.startswith("<svg") else "prose" if _is_prose(markup) else ""
    named = f' data-name="{escape(name)}"' if name and kind != "bar" else ""
    styled = f' class="{kind}"' if kind else ""
    return f"<td{styled}{named}>{markup}</td>"


# ---------------------------------------------------------------------------------------------------------------- bars


def share(fraction: float | None, name: str) -> str:
    """A share of one as a bar; what goes beyond is cut at the end of the track."""
    if fraction is None:
        return ""
    filled = BAR_WIDTH * min(max(fraction, 0.0), 1.0)
    label = f"{name}: {100 * fraction:.0f}%"
    return svg(label, f'{track()}<rect width="{filled:.1f}" height="{BAR_HEIGHT}"/>')


def span(label: str, low: float, high: float | None, value: float, limit: float) -> str:
    """An interval as a thin bar, its value and its limit as marks; `high` is None where nothing bounds it."""
    whole = 1.1 * max(high if high is not None else 1.5 * max(value, limit), value, limit)
    if not whole > 0.0:
        return ""
    # shares first, so that no product of a huge value overflows
    start, end = BAR_WIDTH * (low / whole), BAR_WIDTH * ((high / whole) if high is not None else 1.0)
    shapes = f'{track()}<rect x="{start:.1f}" y="4" width="{max(end - start, 1.0):.1f}" height="{BAR_HEIGHT - 8}"/>'
    marks = _mark("value", BAR_WIDTH * (value / whole), 5) + _mark("limit", BAR_WIDTH * (limit / whole), 2)
    return svg(label, shapes + marks)


def track() -> str:
    return f'<rect class="track" width="{BAR_WIDTH}" height="{BAR_HEIGHT}"/>'


def _mark(kind: str, x: float, width: int) -> str:
    return f'<rect class="{kind}" x="{x - width / 2:.1f}" width="{width}" height="{BAR_HEIGHT}"/>'


def svg(label: str, shapes: str) -> str:
    size = f'viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" preserveAspectRatio="none"'
    return f'<svg role="img" aria-label="{escape(label)}" {size}><title>{escape(label)}</title>{shapes}</svg>'
