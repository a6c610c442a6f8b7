# %% [markdown]
# # Read a trace
# What recorded traffic says about load, lengths and reuse, before any hardware is chosen. Run from the root of a clone.

# %%
from planner import load_trace

trace = load_trace("docs/examples/data/mooncake_blocks.jsonl")
facts = trace.to_dict()
print(f"{facts['requests']:,} requests, {facts['requests_per_s']:.2f}/s, {facts['format']} format")
print(f"prompts: mean {facts['input_tokens']['mean']:,.0f} tokens, p99 {facts['input_tokens']['p99']:,.0f}")
print(f"answers: mean {facts['output_tokens']['mean']:,.0f} tokens, p99 {facts['output_tokens']['p99']:,.0f}")

# %% [markdown]
# Arrays of the trace itself, in the order of requests: seconds and tokens.

# %%
gaps_s = trace.arrivals.time_s[1:] - trace.arrivals.time_s[:-1]
print(f"longest pause {gaps_s.max():.1f} s; {trace.input_tokens.sum():,.0f} prompt tokens in all")

# %% [markdown]
# The exact hit ratio of a prefix cache of every size: how much of the prompts a cache of so many tokens would find.

# %%
for row in trace.to_records()[::3]:
    bar = "█" * round(100 * row["hit_ratio"])
    print(f"{row['capacity_tokens']:12,} tokens  {100 * row['hit_ratio']:5.1f}%  {bar}")
print(f"no cache finds more than {100 * facts['reuse']['ceiling']:.1f}%")
