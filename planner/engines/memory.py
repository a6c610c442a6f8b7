"""How large a KV pool an engine makes on one accelerator, by its own rule (`hardware/engines/`)."""

from __future__ import annotations

from dataclasses import dataclass

from planner.records import MemoryRule, RoleName

MIB = 2.0**20
_LARGEST_GRAPH_BATCH = 512
_PREFILL_GRAPHS = 58  # sizes captured up to 8,192 tokens
_LARGE_MEMORY = 61440 * MIB
_LEAST_RESERVE = 10240 * MIB  # on accelerators of large memory


@dataclass(frozen=True, slots=True)
class Launch:
    """How an engine is started, as far as its memory rule asks. `max_batch` is per rank."""

    accelerators: int
    dp: int
    token_budget: int
    max_batch: int
    role: RoleName
    latent_attention: bool


def kv_pool_bytes(
    rule: MemoryRule, memory_bytes: float, weights_bytes: float, activation_bytes: float, launch: Launch
) -> float:
    """Bytes of the KV pool on one accelerator; negative when the weights leave no room.

    - `total` (vLLM): a fraction of the whole memory, less everything else that is measured at start-up.
    - `free-before-load` (SGLang): what weights leave, less a slack that is a fraction of the memory free before
      loading. Fraction 0 derives the slack as the engine does.
    - `free-after-load` (TensorRT-LLM): a fraction of what weights and the peak of a step leave.

    Never more than what physically remains.
    """
    free = memory_bytes - reserve_bytes(rule, launch.accelerators)
    left = free - weights_bytes - activation_bytes
    if rule.basis == "total":
        pool = left - memory_bytes * (1.0 - rule.fraction)
    elif rule.basis == "free-before-load":
        slack = 1.0 - rule.fraction if rule.fraction else derived_slack_bytes(memory_bytes, launch) / memory_bytes
        pool = free - weights_bytes - slack * free
    else:
        pool = left * rule.fraction
    return min(pool, left)


def reserve_bytes(rule: MemoryRule, accelerators: int) -> float:
    """Driver context, and collective buffers once more than one accelerator takes part."""
    return rule.context_bytes + (rule.collective_bytes if accelerators > 1 else 0.0)


def derived_slack_bytes(memory_bytes: float, launch: Launch) -> float:
    """SGLang's reserve for activations and graphs, from which it derives mem_fraction_static (version 0.5.23).

    512 + 1.5 activation tokens + 128 ranks + graphs [MiB], at least 10,240 where memory exceeds 61,440 MiB.
    """
    prompts = launch.token_budget if launch.role != "decode" else launch.max_batch
    reserve = 512.0 + 1.5 * max(prompts, 2048) + 128.0 * launch.accelerators + _graph_reserve_mib(launch)
    least = _LEAST_RESERVE if memory_bytes > _LARGE_MEMORY else 0.0
    return max(reserve * MIB, least)


def _graph_reserve_mib(launch: Launch) -> float:
    batch = min(launch.max_batch, _LARGEST_GRAPH_BATCH)
    reserve = 0.0
    if launch.role != "prefill":
        reserve += 2.0 * batch
        if launch.dp > 1:
            reserve += 3.0 * batch * launch.dp * (1.5 if batch > 300 else 1.0)
    if launch.role != "decode":
        reserve += 1536.0 if launch.latent_attention else 8.0 * _PREFILL_GRAPHS
    return reserve
