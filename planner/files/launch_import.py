"""Pools that launch files start, as one deployment under a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.errors import Fault, InputError
from planner.files.launch_files import Running
from planner.files.launch_options import Told
from planner.records import DECODE_TOKEN_BUDGET, Accelerator, Deployment, EngineProfile, Mode, Pool, Scenario


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A scenario with the deployment that launch files start, and what was not read of them."""

    scenario: Scenario
    unread: tuple[str, ...]  # names of options
    remarks: tuple[str, ...]


def as_scenario(
    scenario: Scenario,
    running: Sequence[Running],
    paths: Sequence[Path],
    engine: Callable[[str], EngineProfile],
    accelerator: Callable[[str], Accelerator],
    products: Mapping[str, str],
) -> Imported:
    """The scenario with the deployment that runs, on the engine that runs it.

    Parameters
    ----------
    engine, accelerator : callable
        Look an id up; KeyError for an unknown one.
    products : mapping
        From the name under which clusters label an accelerator to its id.

    Raises InputError when the files start several engines, half a deployment, or pools that are no one deployment.
    """
    reader = _Reader(scenario, running, ", ".join(str(path) for path in paths), engine, accelerator, products)
    return reader.imported()


class _Reader:
    def __init__(
        self,
        scenario: Scenario,
        running: Sequence[Running],
        files: str,
        engine: Callable[[str], EngineProfile],
        accelerator: Callable[[str], Accelerator],
        products: Mapping[str, str],
    ) -> None:
        self.scenario = scenario
        self.running = running
        self.files = files
        self.look_up = accelerator
        self.products = products
        self.remarks: list[str] = []
        engines = sorted({pool.told.engine for pool in running})
        if len(engines) > 1:
            raise self._fault(f"start several engines: {' and '.join(engines)}; give the files of one deployment")
        self.engine = self._engine(engine(engines[0]))

    def imported(self) -> Imported:
        by_role = self._by_role()
        accelerators = {role: self._accelerator(pool, role) for role, pool in by_role.items()}
        pools = {role: self._pool(pool, role, accelerators[role]) for role, pool in by_role.items()}
        last = pools.get("decode") or pools["colocated"]
        deployment = Deployment(self._mode(by_role), last, pools.get("prefill"))
        told = [pool.told for pool in by_role.values()]
        self._remark_model(told)
        changed = replace(
            self.scenario,
            engine=self.engine,
            deployment=deployment,
            kv_dtype=self._agreed(told, "kv_dtype") or "bf16",
            weights=self._agreed(told, "weights") or self.scenario.weights,
            prefill_accelerators=(accelerators.get("prefill") or accelerators.get("colocated"),),  # type: ignore[arg-type]
            decode_accelerators=(accelerators.get("decode") or accelerators.get("colocated"),),  # type: ignore[arg-type]
        )
        unread = tuple(dict.fromkeys(name for one in told for name in one.unread))
        return Imported(changed, unread, tuple(self.remarks))

    def _fault(self, message: str) -> InputError:
        return InputError([Fault(message, self.files)])

    def _engine(self, profile: EngineProfile) -> EngineProfile:
        """The profile with what the command line says of memory, blocks and the connector."""
        told = [pool.told for pool in self.running]
        memory = profile.memory
        fractions = {one.memory_fraction for one in told if one.memory_fraction}
        fraction = fractions.pop() if len(fractions) == 1 else None
        if fractions:
            self.remarks.append("memory fractions differ between pools: memory is sized by the engine's own rule")
        block = next((one.block_tokens for one in told if one.block_tokens), None)
        if fraction and fraction <= 1.0 and fraction != memory.fraction:
            memory = replace(memory, fraction=fraction)
        if block:
            memory = replace(memory, block_tokens=block)
        connector = next((one.connector for one in told if one.connector in profile.connectors), profile.connector)
        reserved = next((one.reserved_tokens for one in told if one.reserved_tokens), profile.decode_reserved_tokens)
        return replace(profile, memory=memory, connector=connector, decode_reserved_tokens=reserved)

    # ------------------------------------------------------------------------------------------------------------ pools

    def _by_role(self) -> dict[str, Running]:
        """One pool for each role; workers of a role that say the same count together."""
        found: dict[str, Running] = {}
        for pool in self.running:
            role = pool.told.role or "colocated"
            same = found.get(role)
            if same is None:
                found[role] = pool
            elif replace(same.told, unread=()) == replace(pool.told, unread=()):
                found[role] = replace(same, replicas=same.replicas + pool.replicas)
            else:
                raise self._fault(f"start {role} workers of two kinds; one deployment has one pool for each role")
        for role, other in (("prefill", "decode"), ("decode", "prefill")):
            if role in found and other not in found:
                raise self._fault(f"start {role} workers only; name the file of the {other} workers with --from too")
        if "colocated" in found and len(found) > 1:
            raise self._fault("start workers that prefill or decode only, and workers that do both")
        return {role: found[role] for role in ("prefill", "decode", "colocated") if role in found}

    def _mode(self, by_role: Mapping[str, Running]) -> Mode:
        if "colocated" not in by_role:
            return "disaggregated"
        whole = by_role["colocated"].told.whole_prompts or self.engine.scheduling == "whole-prompt"
        return "colocated-whole-prompt" if whole else "colocated-chunked"

    def _pool(self, pool: Running, role: str, accelerator: Accelerator) -> Pool:
        told = pool.told
        tp, pp, dp = told.tp or 1, told.pp or 1, told.dp or 1
        if not pool.counted:
            self.remarks.append(f"{role}: taken as one worker; the file does not say how many are started")
        asked = pool.per_node * pool.nodes
        if asked and asked != tp * pp * dp:
            uses = tp * pp * dp
            self.remarks.append(
                f"{role}: a worker asks for {asked} accelerators, its command uses {uses}, which counts"
            )
        return Pool(
            accelerator=accelerator.id,
            replicas=pool.replicas,
            tp=tp,
            pp=pp,
            ep=told.ep or 1,
            dp=dp,
            max_batch=self._max_batch(told, role, dp, accelerator),
            token_budget=self._token_budget(told, role, accelerator),
        )

    def _max_batch(self, told: Told, role: str, dp: int, accelerator: Accelerator) -> int:
        """Of a worker; 0 where it is the largest that the engine takes, which limits nothing more."""
        if role == "prefill":
            return 0
        per_rank, most = told.max_batch or self._default(accelerator, "max_batch"), self.engine.max_batch
        if per_rank > most:
            self.remarks.append(f"{role}: {per_rank} sequences on a rank are taken as {most}, the most that is planned")
        return 0 if per_rank >= most else per_rank * dp

    def _token_budget(self, told: Told, role: str, accelerator: Accelerator) -> int:
        """Of a step; 0 where it is what a plan assumes without being told."""
        if role == "decode":
            assumed = max(told.max_batch or 0, DECODE_TOKEN_BUDGET)
            return 0 if told.token_budget in (None, assumed) else told.token_budget or 0
        budget = told.token_budget or self._default(accelerator, "token_budget")
        whole = told.whole_prompts and budget == told.longest_tokens  # only as large as the longest prompt needs
        return 0 if whole or budget == self.engine.token_budget else budget

    def _default(self, accelerator: Accelerator, name: str) -> int:
        """What the engine chooses on this accelerator by itself."""
        for default in self.engine.device_defaults:
            excluded = accelerator.id.startswith(default.but_not) if default.but_not else False
            if accelerator.memory_bytes >= default.least_bytes and not excluded:
                return int(getattr(default, name))
        return int(getattr(self.engine, name))

    def _accelerator(self, pool: Running, role: str) -> Accelerator:
        """The accelerator that the file names, else the only one that the scenario leaves."""
        if pool.accelerator:
            name = self.products.get(pool.accelerator, pool.accelerator)
            try:
                return self.look_up(name)
            except KeyError:
                self.remarks.append(f"{role}: the label of its nodes names no accelerator of the catalog")
        given = self.scenario.deployment
        if given is not None:
            chosen = given.prefill if role == "prefill" and given.prefill else given.decode
            return self.scenario.accelerator(chosen.accelerator)
        candidates = self.scenario.prefill_accelerators if role == "prefill" else self.scenario.decode_accelerators
        if len(candidates) != 1:
            names = ", ".join(one.id for one in candidates)
            raise self._fault(f"{role} workers: no file says their accelerator; leave one of {names} in the scenario")
        return candidates[0]

    # ---------------------------------------------------------------------------------------------------------- formats

    def _agreed(self, told: Sequence[Told], name: str) -> str:
        values = sorted({str(getattr(one, name)) for one in told if getattr(one, name)})
        if len(values) > 1:
            raise self._fault(f"run prefill and decode with {name} {' and '.join(values)}; caches move between equals")
        return values[0] if values else ""

    def _remark_model(self, told: Sequence[Told]) -> None:
        wanted = _plain(self.scenario.model.id)
        others = sorted({one.model for one in told if one.model and _plain(one.model) != wanted and _is_id(one.model)})
        if others:
            self.remarks.append(
                f"the files start {' and '.join(others)}; the figures are for {self.scenario.model.id}, of the scenario"
            )


def _plain(name: str) -> str:
    return name.rpartition("/")[2].lower().removesuffix("-instruct")


def _is_id(name: str) -> bool:
    """Whether a name is one of a model hub, which may be shown; paths and addresses are not."""
    parts = name.split("/")
    return len(parts) == 2 and all(part.replace("-", "").replace(".", "").replace("_", "").isalnum() for part in parts)
