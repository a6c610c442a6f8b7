# %% [markdown]
# # Vary the load
# How tails grow as traffic fills a deployment: one plan, the same lengths, more and more requests per second. Run from
# the root of a clone.

# %%
from dataclasses import replace

from planner import evaluate, load_scenario
from planner.render import svg

scenario = load_scenario("docs/examples/heterogeneous.yaml")
plan = evaluate(scenario)  # the deployment that the file gives
most = plan.prediction.requests_per_s_max
print(f"{plan.deployment.accelerators} accelerators keep up with as much as {most:.1f} requests/s, targets aside")

# %%
asked = scenario.workload.requests_per_s
points = []
for fraction in (0.25, 0.5, 0.75, 1.0, 1.15):
    load = replace(scenario.workload, requests_per_s=fraction * asked)
    points.append(evaluate(replace(scenario, workload=load)))

# %% [markdown]
# A value that nothing bounds is infinite in the records and null in `to_dict()` and `to_records()`.

# %%
longest = max(row["itl_s.p99"] for row in (point.to_records()[0] for point in points))
for point in points:
    row = point.to_records()[0]
    bar = "█" * round(30 * row["itl_s.p99"] / longest)
    rate, busy = point.scenario.workload.requests_per_s, point.prediction.decode.utilization
    print(f"{rate:5.1f} /s  decode {100 * busy:3.0f}% busy  ITL p99 {1000 * row['itl_s.p99']:5.1f} ms  {bar}")

# %% [markdown]
# The same as a picture, drawn without a plotting library. In a notebook: `IPython.display.SVG(picture)`.

# %%
rates = [point.scenario.workload.requests_per_s for point in points]
gaps_ms = [1000 * point.to_records()[0]["itl_s.p99"] for point in points]
limit_ms = 1000 * next(target.limit_s for target in scenario.targets if target.metric == "itl")
frame = svg.framed(
    "ITL P99 over load",
    f"ITL P99 from {gaps_ms[0]:.1f} ms at {rates[0]:.0f} requests/s to {gaps_ms[-1]:.1f} ms at {rates[-1]:.0f}",
    svg.Axis("load", "requests/s", 0.0, max(rates)),
    svg.Axis("ITL P99", "ms", 0.0, 1.2 * max(*gaps_ms, limit_ms)),
    source=f"planner, {scenario.name}; dashed: the target",
)
frame.draw()
frame.canvas.line([frame.at(0.0, limit_ms), frame.at(max(rates), limit_ms)], svg.RED, dash="10 5")
frame.canvas.line([frame.at(x, y) for x, y in zip(rates, gaps_ms, strict=True)], svg.BLUE)
picture = frame.canvas.document()
print(f"a picture of {len(picture):,} characters of SVG")
