"""A result as one page that needs nothing else: no script, no font, no network. The verdict first, sources last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from planner.render.checks import interval_text, limit_text, measured_text
from planner.render.gate import fault_text, headline, scenario_name, verdict_word
from planner.render.sections import Section, assumptions, checks_section, sections
from planner.render.table import load_words, plan_words, verdict_line

Document = Mapping[str, Any]

CLASSES = {
    "pass": "pass",
    "at risk": "risk",
    "fail": "fail",
    "broken": "fail",
    "feasible": "pass",
    "infeasible": "fail",
}
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
CONTENT = """\
h1 { font-size: 1.5rem; line-height: 1.3; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
.pass { color: var(--pass); } .risk { color: var(--risk); } .fail { color: var(--fail); }
.verdict { font-weight: bold; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
td.source { overflow-wrap: anywhere; }
svg { display: block; fill: var(--bar); }
svg .track { fill: var(--line); } svg .limit { fill: var(--fail); } svg .value { fill: currentColor; }
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; }
"""
STYLE = (
    """
:root { color-scheme: light dark; --line: #8886; --bar: #4a7ebb; --pass: #1a7f37; --risk: #9a6700; --fail: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --bar: #79a7dd; --pass: #4fc06a; --risk: #d9a441; --fail: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
"""
    + CONTENT
    + """\
footer { margin-top: 2rem; font-size: .85rem; }
@media print { main { max-width: none; padding: 0; } .wide { overflow: visible; } section, tr { break-inside: avoid; } }
"""
)
INSIDE = ".planner-result { --line: #8886; --bar: #4a7ebb; --pass: #1a7f37; --risk: #9a6700; --fail: #b3261e;"
KEY = "Bars: the thin bar is the interval, the thick mark the value, the thin mark the limit."
BAR_WIDTH, BAR_HEIGHT = 160, 14


def to_html(document: Document) -> str:
    """Return the page of a result or of a gate document; everything that a file says is escaped."""
    many = "results" in document
    body = list(_gate(document) if many else _result(document))
    title = f"planner check: {verdict_word(document)}" if many else f"planner: {scenario_name(document)}"
    return _page(title, body, document["tool"]["version"])


def to_html_fragment(document: Document) -> str:
    """Return the content of the page of a result for a place inside another page; its style stays inside as well."""
    return _fragment("\n".join(_result(document)))


def text_fragment(text: str) -> str:
    """Return a report of plain text for a place inside another page."""
    return _fragment(f"<pre>{escape(text)}</pre>")


def _fragment(content: str) -> str:
    return f'<div class="planner-result">\n<style>\n{INSIDE}\n{CONTENT}}}</style>\n{content}\n</div>\n'


def _page(title: str, body: Sequence[str], version: str) -> str:
    content = "\n".join(body)
    return f"""<!DOCTYPE html>
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


# ------------------------------------------------------------------------------------------------------------- results


def _result(document: Document) -> Iterator[str]:
    verdict, _, answer = verdict_line(document).partition("  ")
    yield f"<h1>{_verdict(document['verdict'], verdict)} {escape(answer)}</h1>"
    yield f"<p>{escape(load_words(document))}</p>"
    yield from _body(document, 2)


def _gate(document: Document) -> Iterator[str]:
    yield f"<h1>{_verdict(document['verdict'], verdict_word(document))} {escape(headline(document))}</h1>"
    rows = [
        f"<tr><td>{_verdict(one['gate'], one['gate'])}</td>"
        f'<td><a href="#scenario-{number}">{escape(scenario_name(one))}</a></td><td>{escape(plan_words(one))}</td></tr>'
        for number, one in enumerate(document["results"], 1)
    ]
    rows += [
        f"<tr><td>{_verdict('broken', 'broken')}</td><td>{escape(one['scenario'])}</td>"
        f"<td>{'<br>'.join(escape(fault_text(fault)) for fault in one['faults'])}</td></tr>"
        for one in document["broken"]
    ]
    yield _wide("Scenarios", _head(("verdict", "scenario", "plan")) + "\n".join(rows))
    for number, one in enumerate(document["results"], 1):
        yield f'<article id="scenario-{number}">'
        yield f"<h2>{_verdict(one['gate'], one['gate'])} {escape(scenario_name(one))}</h2>"
        yield f"<p>{escape(plan_words(one))}. {escape(load_words(one))}</p>"
        yield from _body(one, 3)
        yield "</article>"


def _body(result: Document, level: int) -> Iterator[str]:
    yield _checks(result, level)
    for section in sections(result):
        if section.rows:
            yield _section(section, level)
    resting = [_section(section, level + 1) for section in assumptions(result) if section.rows]
    yield f"<details>\n<summary>Assumptions, with sources</summary>\n{''.join(resting)}</details>"


def _verdict(verdict: str, text: str) -> str:
    return f'<span class="verdict {CLASSES[verdict]}">{escape(text)}</span>'


# -------------------------------------------------------------------------------------------------------------- tables


def _section(section: Section, level: int) -> str:
    head = (*section.head, "") if section.bars else section.head
    rows = []
    for number, row in enumerate(section.rows):
        cells = "".join(_cell(text) for text in row)
        bar = f"<td>{_share(section.bars[number], row[0])}</td>" if section.bars else ""
        rows.append(f"<tr>{cells}{bar}</tr>")
    return _titled(section.title, level, _wide(section.title, _head(head) + "\n".join(rows)))


def _checks(result: Document, level: int) -> str:
    section = checks_section(result)
    rows = []
    for line, row in zip(result["checks"], section.rows, strict=True):
        cells = "".join(_cell(text) for text in row[1:])
        rows.append(f"<tr><td>{_verdict(line['verdict'], row[0])}</td>{cells}<td>{_span(line)}</td></tr>")
    table = _wide(section.title, _head((*section.head, "")) + "\n".join(rows))
    return _titled(section.title, level, f"{table}\n<p>{KEY}</p>")


def _titled(title: str, level: int, body: str) -> str:
    return f"<section>\n<h{level}>{escape(title)}</h{level}>\n{body}\n</section>\n"


def _wide(label: str, rows: str) -> str:
    """A table that scrolls by itself on a narrow screen, reachable by keyboard."""
    table = f"<table>\n{rows}\n</tbody>\n</table>"
    return f'<div class="wide" role="region" tabindex="0" aria-label="{escape(label)}">\n{table}\n</div>'


def _head(names: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in names)
    return f"<thead><tr>{cells}</tr></thead>\n<tbody>\n"


def _cell(text: str) -> str:
    kind = ' class="source"' if len(text) > 60 else ""
    return f"<td{kind}>{escape(text)}</td>"


# ---------------------------------------------------------------------------------------------------------------- bars


def _share(share: float | None, name: str) -> str:
    """A share of one as a bar; what goes beyond is cut at the end of the track."""
    if share is None:
        return ""
    filled = BAR_WIDTH * min(max(share, 0.0), 1.0)
    label = f"{name}: {100 * share:.0f}%"
    shapes = f'<rect class="track" width="{BAR_WIDTH}" height="{BAR_HEIGHT}"/>'
    return _svg(label, f'{shapes}<rect width="{filled:.1f}" height="{BAR_HEIGHT}"/>')


def _span(line: Document) -> str:
    """The interval of a check as a bar, its value and its limit as marks."""
    value, interval = line["value"], line["interval"]
    if value is None or line["kind"] != "limit":
        return ""
    low, high = interval or (value, value)
    limit = line["limit"]
    whole = 1.1 * max(high if high is not None else 1.5 * max(value, limit), value, limit)
    if not whole > 0.0 or low is None:
        return ""
    # shares first, so that no product of a huge value overflows
    start, end = BAR_WIDTH * (low / whole), BAR_WIDTH * ((high / whole) if high is not None else 1.0)
    shapes = f'<rect class="track" width="{BAR_WIDTH}" height="{BAR_HEIGHT}"/>'
    shapes += f'<rect x="{start:.1f}" y="4" width="{max(end - start, 1.0):.1f}" height="{BAR_HEIGHT - 8}"/>'
    shapes += _mark("value", BAR_WIDTH * (value / whole), 5) + _mark("limit", BAR_WIDTH * (limit / whole), 2)
    between = interval_text(line)
    label = f"value {measured_text(line)}{f', interval {between}' if between else ''}, limit {limit_text(line)}"
    return _svg(label, shapes)


def _mark(kind: str, x: float, width: int) -> str:
    return f'<rect class="{kind}" x="{x - width / 2:.1f}" width="{width}" height="{BAR_HEIGHT}"/>'


def _svg(label: str, shapes: str) -> str:
    size = f'width="{BAR_WIDTH}" height="{BAR_HEIGHT}" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}"'
    return f'<svg role="img" aria-label="{escape(label)}" {size}><title>{escape(label)}</title>{shapes}</svg>'
