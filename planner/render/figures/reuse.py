"""What caches find: against the size of a tier, against load, and in a trace against any size."""

from __future__ import annotations

from collections.abc import Sequence

from planner.render.figures.figure import Document, Figure, source_line, subject, time_scale
from planner.render.lines import Lines, Note, Rule, Series
from planner.render.svg import GREY, Axis
from planner.render.text import percent_text, seconds_text

TB = 1e12
LEAST_SPAN = 1.02  # of a log axis whose values are all the same


def kv_figures(document: Document) -> list[Figure]:
    """Hits and TTFT against the size of each tier, and hits against load; none where nothing is known of reuse."""
    kv = document["kv"]
    sized = [point for point in kv.get("size_curve") or () if point["capacity_bytes"] > 0.0]
    charts = [_hits(document, sized), _ttft(document, sized)] if sized else []
    if kv.get("load_curve"):
        charts.append(_hits_under_load(document))
    return [Figure("tiers", charts)] if charts else []


def _sizes(sized: Sequence[Document]) -> Axis:
    values = [point["capacity_bytes"] / TB for point in sized]
    tiers = _tiers(sized)
    label = f"size of {tiers[0] if len(tiers) == 1 else 'the tier'}, per node"
    return Axis(label, "TB", min(values), max(max(values), LEAST_SPAN * min(values)), log=True)


def _tiers(sized: Sequence[Document]) -> list[str]:
    return list(dict.fromkeys(point["tier"] for point in sized))


def _hits(document: Document, sized: Sequence[Document]) -> Lines:
    """Prompt tokens found, with the sizes that the plan has."""
    kv = document["kv"]
    ceiling = kv["ceiling_fraction"]
    series = [
        Series(
            tier,
            [(p["capacity_bytes"] / TB, 100.0 * p["hit_fraction"]) for p in sized if p["tier"] == tier],
            shape="dot",
        )
        for tier in _tiers(sized)
    ]
    rules = [Rule(100.0 * ceiling, f"with room for everything {percent_text(ceiling)}")] if ceiling else []
    most = 100.0 * max([point["hit_fraction"] for point in sized] + [ceiling or 0.0])
    return Lines(
        "Prompt tokens found in a cache against its size",
        _sizes(sized),
        Axis("prompt tokens found", "%", 0.0, 1.25 * most or 1.0),
        series,
        rules=rules,
        notes=[
            Note(row["capacity_bytes"] / TB, 100.0 * kv["hit_fraction"], f"the plan: {row['tier']}", shape="diamond")
            for row in kv["tiers"]
            if row["tier"] in _tiers(sized)
        ],
        subtitle=f"{subject(document)}; one size moved, the others as they are",
        source=source_line(document),
    )


def _ttft(document: Document, sized: Sequence[Document]) -> Lines:
    known = [point for point in sized if point["ttft_mean_s"] is not None]
    unit, scale = time_scale(max((point["ttft_mean_s"] for point in known), default=1.0))
    most = scale * max((point["ttft_mean_s"] for point in known), default=1.0)
    targets = {
        target["limit_s"]: f"target mean {seconds_text(target['limit_s'])}"
        for target in document["inputs"]["targets"]
        if (target["metric"], target["statistic"]) == ("ttft", "mean")
    }
    return Lines(
        "Mean TTFT against the size of a cache",
        _sizes(sized),
        Axis("TTFT mean", unit, 0.0, 1.2 * max([most, *(limit * scale for limit in targets)])),
        [
            Series(
                tier,
                [(p["capacity_bytes"] / TB, p["ttft_mean_s"] * scale) for p in known if p["tier"] == tier],
                shape="dot",
            )
            for tier in _tiers(sized)
        ],
        rules=[Rule(limit * scale, text) for limit, text in targets.items()],
        subtitle=f"{subject(document)}; one size moved, the others as they are",
        source=source_line(document),
    )


def _hits_under_load(document: Document) -> Lines:
    """All hits from a warm and from an empty cache, with the loads at which a place loses its own."""
    curve, cliffs = document["kv"]["load_curve"], document["kv"]["cliffs"]
    users = curve[0]["users"] is not None
    at = [point["users"] if users else point["requests_per_s"] for point in curve]
    lost = [
        Rule(cliff["lost_at"], f"{cliff['tier']} loses its hits", upright=True) for cliff in cliffs if cliff["lost_at"]
    ]
    found = {
        start: [(x, 100.0 * sum(point[start]["hit_fractions"])) for x, point in zip(at, curve, strict=True)]
        for start in ("warm", "cold")
    }
    most = max(y for points in found.values() for _, y in points)
    return Lines(
        "Prompt tokens found against load",
        Axis("load", "users" if users else "requests/s", min(at), max(max(at), LEAST_SPAN * min(at)), log=True),
        Axis("prompt tokens found", "%", 0.0, 1.25 * most or 1.0),
        [Series(f"from a {start} cache", points, shape="dot") for start, points in found.items()],
        rules=lost,
        subtitle=subject(document),
        source=source_line(document),
    )


def trace_figures(document: Document) -> list[Figure]:
    """The hit curve of a trace; none where it has no block ids."""
    reuse = document["reuse"]
    if not reuse:
        return []
    curve = reuse["curve"]
    sizes = [point["capacity_blocks"] for point in curve]
    names = {"hit_ratio": "blocks", "token_hit_ratio": "tokens"}
    series = [
        Series(
            f"of {word}", [(p["capacity_blocks"], 100.0 * p[name]) for p in curve if p[name] is not None], shape="dot"
        )
        for name, word in names.items()
        if any(point[name] is not None for point in curve)
    ]
    tool, files = document["tool"], ", ".join(file["path"] for file in document["files"])
    ceiling = reuse["ceiling"]
    chart = Lines(
        "What a prefix cache finds against its size",
        Axis("size of the cache", "blocks", min(sizes), max(max(sizes), LEAST_SPAN * min(sizes)), log=True),
        Axis("found", "%", 0.0, 125.0 * max([ceiling, *(p["hit_ratio"] for p in curve)]) or 1.0),
        series,
        rules=[Rule(100.0 * ceiling, f"ceiling {percent_text(ceiling)} of blocks", color=GREY)] if ceiling else [],
        subtitle=f"{document['format']} trace, {document['requests']:,} requests, {reuse['eviction']} eviction",
        source=f"{tool['name']} {tool['version']}, {files}",
    )
    return [Figure("reuse", [chart])]
