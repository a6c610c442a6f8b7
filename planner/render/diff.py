"""What changed between two results, for people: in columns for a terminal, as Markdown for a comment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.render.report import Report, report_page, report_text
from planner.render.section import Section
from planner.render.text import Cell, Pen, Row, value_text

Document = Mapping[str, Any]

MOST_CHARACTERS = 60_000
MOST_ROWS = 200  # of one table in a comment
MARKER = "<!-- planner:diff -->"
_TONES = {"improved": "good", "regressed": "bad", "changed": "close", "added": "close", "removed": "close"}
_SIGNS = {"improved": "+", "regressed": "!", "changed": "~", "added": "+", "removed": "-"}
_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]#|~$<>"})


def headline(diff: Document) -> str:
    """One line: what came out, and how many results moved which way."""
    counts = [f"{number} {kind}" for kind, number in diff["counts"].items() if number]
    moved = ", ".join(counts) or "no result moved"
    old, new = diff["old"]["verdict"], diff["new"]["verdict"]
    verdict = f"; {old} before, {new} now" if old != new else ""
    catalog = "; catalog changed" if diff["catalog_changed"] else ""
    return f"{diff['verdict'].upper()}  {diff['new']['scenario']}: {moved}{verdict}{catalog}"


def _all(document: Document) -> Sequence[Document]:
    return list(document["diffs"]) if "diffs" in document else [document]


def diff_text(document: Document, pen: Pen, *, every: bool = False, notes: bool = True) -> str:
    """The changes in columns: inputs, catalog values, results, `notes`; of results the principal ones, or `every`."""
    blocks = [report_text(_report(diff, every, notes), pen) for diff in _all(document)]
    return "\n".join([*blocks, *(f"{word.upper()}  {name}\n" for name, word in _lonely(document))])


def diff_page(document: Document) -> str:
    """The same as a page, with every result that moved."""
    lonely = [Report("planner diff", name, word.upper(), "close") for name, word in _lonely(document)]
    return report_page([*(_report(diff, True, True) for diff in _all(document)), *lonely])


def _lonely(document: Document) -> Iterator[tuple[str, str]]:
    for word in ("added", "removed"):
        for name in document.get(word, ()):
            yield name, word


def _report(diff: Document, every: bool, notes: bool) -> Report:
    verdict, _, answer = headline(diff).partition("  ")
    return Report(
        f"planner diff: {diff['new']['scenario']}",
        answer,
        verdict,
        _TONES.get(diff["verdict"], "good"),
        (f"old: {diff['old']['name']}   new: {diff['new']['name']}",),
        tuple(_sections(diff, every, notes)),
    )


def _is_principal(change: Document) -> bool:
    """What a plan is judged by; percentiles between and parts are left to those who ask."""
    field = change["field"]
    if field.startswith(("memory_per_accelerator.", "prediction.ttft_parts_s.", "prediction.decode_step_parts_s.")):
        return False
    if field.startswith(("kv.", "energy.")):
        return field in ("kv.bytes_per_token", "kv.capacity_tokens", "energy.watts")
    return not field.endswith((".p50", ".p90", ".p95", ".p99_9", ".utilization", ".mean_batch", ".trust_reason"))


def _sections(diff: Document, every: bool, notes: bool = True) -> Iterator[Section]:
    """Each part; one cause of all results stands in the title alone."""
    yield _section("Inputs that changed", [_row(change) for change in diff["inputs"]])
    moved = ", ".join(f"{entry['kind']} {entry['id']}" for entry in diff["catalog_changed"])
    yield _section(f"Catalog changed: {moved}" if moved else "Catalog values that changed", _catalog_rows(diff))
    causes = {change["cause"] for change in diff["results"]}
    cause = next(iter(causes)) if len(causes) == 1 else None
    title = f"Results that changed, all by {_name(cause)}" if cause else "Results that changed"
    shown = [change for change in diff["results"] if every or _is_principal(change)]
    left = len(diff["results"]) - len(shown)
    said = (f"{left} more numbers moved; -v lists them all",) if left else ()
    yield _section(title, [_row({**change, "cause": None} if cause else change) for change in shown], said)
    if notes:
        rows = tuple((_SIGNS[note["kind"]], note["level"], note["text"]) for note in diff["notes"])
        yield Section("Notes", rows=rows, align="llw")


def _section(title: str, rows: list[Row], said: tuple[str, ...] = ()) -> Section:
    return Section(title, rows=tuple(rows), align="lllrrw", said=said)


def _catalog_rows(diff: Document) -> list[Row]:
    rows: list[Row] = [_row(change) for change in diff["catalog"]]
    if rows or not diff["catalog_changed"]:
        return rows
    return [
        ("~", "files", "", "", "", "their content moved, none of the values listed here did (fits, notes, sources)")
    ]


def _row(change: Document) -> Row:
    kind, tone = change["kind"], _TONES[change["kind"]]
    reason = (
        f"source: {change['source']}" if change["source"] else f"by {_name(change['cause'])}" if change["cause"] else ""
    )
    word = kind if kind in ("improved", "regressed") else ""
    last = "; ".join(part for part in (word, reason) if part)
    old, new = (_value(change[side], change["unit"]) for side in ("old", "new"))
    return Cell(_SIGNS[kind], tone), _name(change["field"]), old, Cell(new, tone), _percent(change), last


def _name(field: str) -> str:
    """A path without the parts that every path of its table has."""
    for prefix in ("inputs.accelerators[", "inputs.", "prediction."):
        if field.startswith(prefix) and field != "inputs.accelerators":
            return field.removeprefix(prefix).replace("].values.", " ").replace("].", " ")
    return field


def _value(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f"{text[:12]}…" if len(text) == 64 and " " not in text else text
    return value_text(value, unit)


def _percent(change: Document) -> str:
    fraction = change["change_fraction"]
    if fraction is None:
        return ""
    return f"{100 * fraction:+.1f}%" if abs(fraction) < 100 else f"x{1 + fraction:.3g}"


# ------------------------------------------------------------------------------------------------------------ Markdown


def diff_markdown(document: Document) -> str:
    """A comment for a change: headline, inputs, catalog and results as tables, what is unmoved left out.

    Under 60,000 characters: tables are cut from the end, and a line says so. A hidden first line lets a later comment
    replace this one.
    """
    blocks = [MARKER]
    for diff in _all(document):
        blocks += _one_markdown(diff)
    blocks += [f"**{word}**: {_text(name)}" for name, word in _lonely(document)]
    kept, room, left = [], MOST_CHARACTERS - 200, 0
    for block in blocks:
        room -= len(block) + 2
        if room >= 0:
            kept.append(block)
        left += room < 0
    if left:
        kept.append(f"{left} more parts do not fit here; `planner diff --format json` has them.")
    return "\n\n".join(kept) + "\n"


def _one_markdown(diff: Document) -> Iterator[str]:
    verdict, _, rest = headline(diff).partition("  ")
    yield f"### planner diff: {verdict.lower()}"
    yield _text(rest)
    for index, section in enumerate(_sections(diff, every=True, notes=False)):
        rows = section.texts
        if not rows:
            continue
        title = f"**{_text(section.title)}**"
        if index == 2 and len(rows) > 12:
            yield f"{title}\n\n{_table(rows[:12])}"
            yield f"<details><summary>{len(rows) - 12} more results</summary>\n\n{_table(rows[12:])}\n\n</details>"
        else:
            yield f"{title}\n\n{_table(rows)}"
    if diff["notes"]:
        notes = "\n".join(f"- {note['kind']} {note['level']}: {_text(note['text'])}" for note in diff["notes"])
        yield f"<details><summary>Notes</summary>\n\n{notes}\n\n</details>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "| | field | old | new | change | |\n|---|---|---|---|---|---|"
    body = ["| " + " | ".join(map(_text, row)) + " |" for row in rows[:MOST_ROWS]]
    more = [f"| | {len(rows) - MOST_ROWS} more | | | | |"] if len(rows) > MOST_ROWS else []
    return "\n".join([head, *body, *more])


def _text(text: str) -> str:
    """Text that Markdown shows as it is."""
    return " ".join(text.split()).translate(_SPECIAL)
