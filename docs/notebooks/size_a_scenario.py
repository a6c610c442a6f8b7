# %% [markdown]
# # Size a scenario
# What to buy for a chat product under recorded traffic, why, and whether a simulation agrees. Run from the root of a
# clone, as a script or cell by cell (editors open `# %%` files as notebooks).

# %%
from dataclasses import replace

from planner import evaluate, load_scenario, simulate, size

scenario = load_scenario("docs/examples/llama-3.1-70b-azure.yaml")
plan = size(scenario)
print(plan)  # in a notebook, `plan` alone shows the page of `--format html`

# %% [markdown]
# A plan is a record: everything in it has a name of docs/nomenclature.md, in base units.

# %%
deployment, prediction = plan.deployment, plan.prediction
for pool in deployment.pools:
    print(f"{pool.replicas} replicas × TP{pool.tp} of {pool.accelerator}")
low, high = prediction.intervals["ttft_s"]["p99"]
print(f"TTFT p99 {prediction.ttft_s['p99']:.3f} s, between {low:.3f} and {high:.3f} s in 80 of 100 cases")
tightest = plan.to_dict()["limits"][0]
print(f"what binds: {tightest['name']}; relaxed by {tightest['what_would_relax_it']}")

# %% [markdown]
# The same as flat rows, the plan first and then the best of every other kind. Any table library takes them:
# `pandas.DataFrame(plan.to_records())`.

# %%
for row in plan.to_records():
    print(
        f"{row['mode']:24} {row['accelerators']:4} {row['usd_per_hour']:7.2f} USD/h  {row['why_it_lost'] or 'chosen'}"
    )

# %% [markdown]
# One decode replica more, at the same traffic.

# %%
larger = replace(deployment, decode=replace(deployment.decode, replicas=deployment.decode.replicas + 1))
for found in (plan, evaluate(scenario, larger)):
    print(f"{found.deployment.accelerators} accelerators: ITL p99 {1000 * found.prediction.itl_s['p99']:.1f} ms")

# %% [markdown]
# A token-step simulation of the plan, as a witness of the formulas. The same seed gives the same numbers.

# %%
witness = simulate(scenario, deployment, requests=300, seed=1)
for row in witness.to_records():
    if row["name"] in ("ttft_s.mean", "itl_s.mean", "itl_s.p99"):
        print(f"{row['name']}: predicted {row['predicted']:.4f} s, simulated {row['simulated']:.4f} s")
