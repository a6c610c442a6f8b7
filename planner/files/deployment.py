"""The `deployment:` section to a record: which pools its mode needs, and on which accelerators."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from planner.errors import Fault
from planner.files.schema import DeploymentKeys, PoolKeys
from planner.files.yamlfile import Document, FieldPath
from planner.records import Accelerator, Deployment, Mode, Pool

Lookup = Callable[[str, FieldPath], Accelerator | None]


class DeploymentReader:
    """Reads one section; `faults` fills as it goes, `pools` and `accelerators` hold what could be read.

    Parameters
    ----------
    look_up : callable
        From an accelerator's name and the place that names it to the accelerator; reports its own fault.
    prefill, decode : sequence of Accelerator
        The candidates of the scenario; empty where the deployment alone names the hardware.
    broken : set of paths
        Places already reported.
    """

    def __init__(
        self,
        document: Document,
        keys: DeploymentKeys,
        look_up: Lookup,
        prefill: Sequence[Accelerator],
        decode: Sequence[Accelerator],
        broken: Set[FieldPath],
    ) -> None:
        self.document = document
        self.keys = keys
        self.look_up = look_up
        self.broken = broken
        both = {candidate.id: candidate for candidate in (*prefill, *decode)}
        self.candidates = {"prefill": list(prefill), "decode": list(decode), "colocated": list(both.values())}
        self.faults: list[Fault] = []
        self.accelerators: dict[str, Accelerator] = {}
        self.pools: dict[str, Pool] = {}

    def read(self) -> Deployment | None:
        """The deployment, or None after a fault (its own or the look-up's)."""
        mode: Mode = self.keys.mode
        wanted = ("prefill", "decode") if mode == "disaggregated" else ("colocated",)
        for name in ("prefill", "decode", "colocated"):
            given = getattr(self.keys, name) is not None
            if given and name not in wanted:
                self._fault(f"does not go with mode {mode}, which has {' and '.join(wanted)}", name)
            if name in wanted and not given and ("deployment", name) not in self.broken:
                self._fault(
                    f"mode {mode} needs the key {name}, e.g. {name}: {{accelerator: h100-sxm, replicas: 2, tp: 4}}"
                )
        if mode == "disaggregated":
            self._refuse_unused("prefill", "max_batch", "the batches of a prefill pool follow from token_budget")
        pools = {name: self._pool(name, getattr(self.keys, name)) for name in wanted if getattr(self.keys, name)}
        last = pools.get(wanted[-1])
        if self.faults or len(pools) < len(wanted) or last is None or None in pools.values():
            return None
        return Deployment(mode, last, pools.get("prefill"))

    def _fault(self, message: str, *path: str) -> None:
        self.faults.append(self.document.fault(("deployment", *path), message))

    def _refuse_unused(self, name: str, key: str, reason: str) -> None:
        """A key that would change nothing is refused, because whoever wrote it expects something of it."""
        pool = getattr(self.keys, name)
        if pool is not None and getattr(pool, key) is not None:
            self._fault(f"has no effect here: {reason}; remove the key", name, key)

    def _pool(self, name: str, keys: PoolKeys) -> Pool | None:
        accelerator = self._accelerator(name, keys)
        if (keys.tp * keys.dp) % keys.ep:
            self._fault(f"{keys.ep} does not divide tp * dp = {keys.tp * keys.dp}", name, "ep")
        if accelerator is None:
            return None
        self.accelerators[name] = accelerator
        given = keys.model_dump(exclude={"accelerator"}, exclude_none=True)
        self.pools[name] = Pool(accelerator=accelerator.id, **given)
        return self.pools[name]

    def _accelerator(self, name: str, keys: PoolKeys) -> Accelerator | None:
        candidates = self.candidates[name]
        listed = ", ".join(candidate.id for candidate in candidates)
        if keys.accelerator is None:
            if len(candidates) == 1:
                return candidates[0]
            if ("deployment", name, "accelerator") in self.broken:
                return None
            self._fault(f"needs the key accelerator{f', one of {listed}' if listed else ''}", name)
            return None
        accelerator = self.look_up(keys.accelerator, ("deployment", name, "accelerator"))
        if accelerator and candidates and accelerator.id not in {candidate.id for candidate in candidates}:
            self._fault(
                f'"{keys.accelerator}" is not among the candidates of hardware: ({listed})', name, "accelerator"
            )
            return None
        return accelerator
