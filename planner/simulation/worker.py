"""One worker: its ranks step together, admit requests, prefill and decode, and preempt when the cache is full.

Between two events the batch does not change and every context grows by one token a step, so that a stretch of decode
steps is one event: n steps that last t, t + s, t + 2 s, ...
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil, inf, sqrt

from planner.simulation.ledger import Ledger, Log
from planner.simulation.rank import Rank, Schedule
from planner.simulation.steps import StepLaw

_ROUNDING = 1e-9
MOST_ALIKE = 8.0


class Worker:
    """`boundary_s` says when what runs is to be ended and the next to begin; infinity when idle."""

    def __init__(self, law: StepLaw, ranks: int, schedule: Schedule, ledger: Ledger, log: Log) -> None:
        self.ranks = [Rank() for _ in range(ranks)]
        self.boundary_s = inf
        self.version = 0  # of the boundary: a newer one makes older events void
        self._law = law
        self._schedule = schedule
        self._gain = schedule.step_tokens
        self._ledger = ledger
        self._log = log
        self._steps = 0
        self._batch = 0
        self._start_s = 0.0
        self._stretch = 0  # steps of the stretch that runs; 0: idle
        self._step_s = 0.0
        self._rise_s = 0.0
        self._takes: list[tuple[Rank, int, float]] = []  # prompt tokens of each step that runs
        self._decodes = False  # whether steps with prompts also decode
        self._token_s = 0.0  # when residents got their last token
        self._fresh: dict[int, float] = {}  # joined since then: request -> its own last token

    # ------------------------------------------------------------------------------------------------------ arrivals

    def submit(self, rank: int, request: int, now_s: float) -> None:
        """Queue a request on a rank; a stretch that it could join is cut at the end of the step in progress."""
        target = self.ranks[rank]
        idle, queued = self.boundary_s == inf, bool(target.waiting)
        target.waiting.append(request)
        if idle:
            self.begin(now_s)
        elif self._stretch:
            done = self._steps_until(now_s)
            full = queued or len(target.residents) >= self._schedule.max_batch
            if self._takes:
                full = full or any(rank is target for rank, _, _ in self._takes)  # its room is taken to the end
            else:
                self._ledger.residual_s[request] = self._start_s + self._elapsed_s(done) - now_s
            if not full:
                self._cut(done)

    def pause(self, now_s: float) -> None:
        """End what runs with the step in progress."""
        if self._stretch:
            self._cut(self._steps_until(now_s))

    def _cut(self, steps: int) -> None:
        if steps < self._stretch:
            self._stretch = steps
            self._set_boundary(self._start_s + self._elapsed_s(steps))

    def _steps_until(self, now_s: float) -> int:
        """Steps of the stretch until the one in progress ends."""
        spent, rise = now_s - self._start_s, self._rise_s
        if rise * self._stretch < _ROUNDING * self._step_s:
            steps = spent / self._step_s
        else:
            flat = self._step_s - rise / 2.0
            steps = (sqrt(flat * flat + 2.0 * rise * spent) - flat) / rise
        return min(max(ceil(steps - _ROUNDING), 1), self._stretch)

    def _elapsed_s(self, steps: int) -> float:
        return steps * self._step_s + self._rise_s * steps * (steps - 1) / 2.0

    def _set_boundary(self, at_s: float) -> None:
        self.boundary_s = at_s
        self.version += 1

    # ---------------------------------------------------------------------------------------------------- boundaries

    def end(self, now_s: float) -> list[tuple[int, int]]:
        """End what runs. Returns (rank, request) of those that left: finished or given away. `begin` comes next."""
        left: list[tuple[int, int]] = []
        if self._takes:
            self._end_steps(now_s, left)
        else:
            self._end_stretch(now_s)
            self._collect(now_s, left)
        self._stretch, self._takes = 0, []
        return left

    def begin(self, now_s: float) -> None:
        """Start the next step or stretch at a boundary, or fall idle."""
        chunked = self._schedule.policy == "chunked"
        self._start_s = now_s
        for rank in self.ranks:
            if rank.growth and rank.kv + rank.growth > self._schedule.kv_bytes:
                self._preempt(rank)
            if rank.waiting or rank.active:
                (self._fill if chunked else self._take_one)(rank, now_s)
        if self._takes:
            self._begin_steps(now_s, chunked)
        elif self._batch:
            self._begin_stretch(now_s)
        else:
            self._set_boundary(inf)

    def fail(self, now_s: float) -> list[int]:
        """Stop for good and lose every cache. Returns the requests that must be prefilled elsewhere.

        Tokens of the steps that have ended stay with their clients; the step in progress is lost.
        """
        if self._stretch and not self._takes:
            done = self._steps_until(now_s) - 1
            if done:
                self._stretch = done
                self._end_stretch(self._start_s + self._elapsed_s(done))
        lost: list[int] = []
        for rank in self.ranks:
            for request in list(rank.residents):
                self._evict(rank, request)
                lost.append(request)
            lost += [*rank.active, *rank.waiting]
            rank.active.clear()
            rank.waiting.clear()
            rank.kv = rank.reserved = 0.0
        self._stretch, self._takes = 0, []
        self._set_boundary(inf)
        return lost

    def withdraw(self) -> list[int]:
        """Give back the requests that wait here."""
        waiting = [request for rank in self.ranks for request in rank.waiting]
        for rank in self.ranks:
            rank.waiting.clear()
        return waiting

    def take(self) -> int:
        """Give one decoding request away at a boundary, with its cache; -1 where none decodes."""
        for rank in self.ranks:
            if rank.residents:
                request = next(iter(rank.residents))
                self._evict(rank, request)
                return request
        return -1

    @property
    def empty(self) -> bool:
        return not any(rank.waiting or rank.active or rank.residents for rank in self.ranks)

    # ----------------------------------------------------------------------------------------------------- admission

    def _next_prompt(self, rank: Rank, now_s: float) -> int:
        """Admit in order of arrival up to the next prompt; -1 when there is none, or no room for it."""
        while rank.waiting:
            request = rank.waiting[0]
            if not rank.fits(self._schedule, self._ledger, request):
                return -1
            rank.admit(self._ledger, request)
            self._log.most_kv_bytes = max(self._log.most_kv_bytes, rank.kv)
            if self._ledger.prompt_tokens[request] > 0.0:
                rank.active.append(request)
                if self._ledger.start_s[request] != self._ledger.start_s[request]:
                    self._ledger.start_s[request] = now_s
                return request
            last_s = self._ledger.token_s[request]  # known of a request that a failure has moved here
            self._join(rank, request, now_s, now_s if last_s != last_s else last_s)
        return -1

    def _fill(self, rank: Rank, now_s: float) -> None:
        """Prompts in order, as many tokens as the budget leaves beside the decodes."""
        for request in rank.active:
            room = self._schedule.token_budget - len(rank.residents) - self._taken(rank)
            if room <= 0:
                return
            self._takes.append((rank, request, min(self._ledger.prompt_tokens[request], room)))
        while self._schedule.token_budget - len(rank.residents) > self._taken(rank):
            request = self._next_prompt(rank, now_s)
            if request < 0:
                return
            room = self._schedule.token_budget - len(rank.residents) - self._taken(rank)
            self._takes.append((rank, request, min(self._ledger.prompt_tokens[request], room)))

    def _taken(self, rank: Rank) -> float:
        return sum(tokens for owner, _, tokens in self._takes if owner is rank)

    def _take_one(self, rank: Rank, now_s: float) -> None:
        """One prompt at a time, in equal chunks."""
        request = rank.active[0] if rank.active else self._next_prompt(rank, now_s)
        if request < 0:
            return
        left = self._ledger.prompt_tokens[request]
        self._takes.append((rank, request, left / ceil(left / self._schedule.token_budget)))

    def _join(self, rank: Rank, request: int, now_s: float, token_s: float) -> None:
        """Begin to decode, `token_s` being when its last token came."""
        ledger = self._ledger
        if ledger.joined_s[request] != ledger.joined_s[request]:
            ledger.joined_s[request] = now_s
        if request in ledger.restored_s:
            ledger.restored_s[request] = now_s
        finish = self._steps + ledger.steps[request]
        rank.residents[request] = finish
        heappush(rank.finish, (finish, request))
        rank.context += ledger.held[request]
        rank.growth += ledger.kv_bytes_per_step[request]
        self._fresh[request] = token_s
        self._batch += 1

    def _leave(self, rank: Rank, request: int, undone: int) -> None:
        """Take a resident out, with `undone` of its steps left."""
        ledger = self._ledger
        done = ledger.steps[request] - undone
        ledger.steps[request] = undone
        ledger.held[request] += self._gain * done
        ledger.kv_bytes[request] += done * ledger.kv_bytes_per_step[request]
        del rank.residents[request]
        rank.context -= ledger.held[request]
        rank.growth -= ledger.kv_bytes_per_step[request]
        rank.release(self._ledger, request)
        self._batch -= 1
        if not rank.residents:
            rank.context, rank.growth = 0.0, 0.0

    def _preempt(self, rank: Rank) -> None:
        """Send the latest back to the front of the queue until one more step fits; it is prefilled again."""
        ledger = self._ledger
        while rank.kv + rank.growth > self._schedule.kv_bytes:
            self._log.preemptions += 1
            if rank.active and len(rank.residents) == 1:
                request = rank.active.pop()
                rank.release(self._ledger, request)
            else:
                request = next(reversed(rank.residents))
                self._evict(rank, request)
            ledger.forget(request)
            rank.waiting.appendleft(request)

    def _evict(self, rank: Rank, request: int) -> None:
        """Take a resident out before it has finished; the attention of a prompt grows as its length squared."""
        ledger = self._ledger
        before = ledger.held[request]
        self._leave(rank, request, rank.residents[request] - self._steps)
        ledger.token_s[request] = self._fresh.pop(request, self._token_s)
        ledger.attention_s[request] *= (ledger.held[request] / before) ** 2

    # --------------------------------------------------------------------------------------------------------- steps

    def _begin_steps(self, now_s: float, chunked: bool) -> None:
        """Steps with prompt tokens, as many as are alike; the slowest rank sets their time."""
        law, ledger = self._law, self._ledger
        tokens, attention = [0.0] * len(self.ranks), [0.0] * len(self.ranks)
        for rank, request, taken in self._takes:
            index = self._index(rank)
            tokens[index] += taken
            attention[index] += ledger.share_s(request, taken)
        self._decodes = chunked
        longest, rise, steps = -1.0, 0.0, self._alike() if chunked else 1.0
        for rank, taken, own_s in zip(self.ranks, tokens, attention, strict=True):
            slope, batch = 0.0, len(rank.residents)
            if chunked:
                time, slope, room = self._line(rank)
                time += own_s + (law.added_s(batch, taken) if taken else 0.0)
                steps = min(steps, room + 1.0) if batch else steps
            else:
                time = (law.prefill_s(taken) + own_s) if taken else 0.0
            if time > longest:
                longest, rise = time, slope if batch else 0.0
        beside, factor = self._batch if chunked else 0, law.prefill_factor
        before = law.shared_s(beside) * (1.0 - factor) if chunked else 0.0
        self._step_s, self._rise_s = longest + before + factor * law.shared_s(beside, sum(tokens)), rise
        self._stretch = max(int(steps), 1)
        self._set_boundary(now_s + self._elapsed_s(self._stretch))

    def _alike(self) -> float:
        """Steps until a prompt ends, a resident finishes or the cache is full."""
        steps = min(self._ledger.prompt_tokens[request] // taken for _, request, taken in self._takes)
        if len(self.ranks) > 1:
            steps = min(steps, MOST_ALIKE)  # the slowest rank may change
        return min(steps, *(rank.steps_left(self._steps, self._schedule.kv_bytes) for rank in self.ranks))

    def _end_steps(self, now_s: float, left: list[tuple[int, int]]) -> None:
        steps = self._stretch
        held = sum(rank.context for rank in self.ranks)
        held += sum(self._ledger.held[request] for rank in self.ranks for request in rank.active)
        busy = len(self._takes) if self._schedule.gives_away else self._batch
        if self._decodes and self._batch:
            held += self._gain * self._batch * (steps - 1) / 2.0
            self._record(steps, self._step_s, self._rise_s)
            self._grow(steps)
            self._token_s = now_s
            self._collect(now_s, left)
        self._log.states.extend((self._start_s, now_s - self._start_s, busy, held))
        for rank, request, taken in self._takes:
            remaining = self._ledger.prompt_tokens[request] - steps * taken
            self._ledger.prompt_tokens[request] = remaining if remaining > _ROUNDING else 0.0
            if remaining <= _ROUNDING:
                self._prefilled(rank, request, now_s, left)

    def _prefilled(self, rank: Rank, request: int, now_s: float, left: list[tuple[int, int]]) -> None:
        ledger = self._ledger
        rank.active.remove(request)
        if ledger.prefilled_s[request] != ledger.prefilled_s[request]:
            ledger.prefilled_s[request] = now_s
        if self._schedule.gives_away or ledger.steps[request] == 0:
            rank.release(self._ledger, request)
            left.append((self._index(rank), request))
        else:
            preempted_s = ledger.token_s[request]
            self._join(rank, request, now_s, preempted_s if preempted_s == preempted_s else now_s)

    def _index(self, rank: Rank) -> int:
        return 0 if len(self.ranks) == 1 else next(i for i, other in enumerate(self.ranks) if other is rank)

    # ----------------------------------------------------------------------------------------------- decode stretches

    def _begin_stretch(self, now_s: float) -> None:
        steps: float = inf
        worst_s, rise_s = -1.0, 0.0
        for rank in self.ranks:
            batch = len(rank.residents)
            time, rise, room = self._line(rank)
            if batch:
                steps = min(steps, rank.steps_left(self._steps, self._schedule.kv_bytes), room + 1.0)
            if time > worst_s:
                worst_s, rise_s = time, rise if batch else 0.0
        self._stretch = max(int(steps), 1)
        self._step_s, self._rise_s = worst_s + self._law.shared_s(self._batch), rise_s
        self._set_boundary(now_s + self._elapsed_s(self._stretch))

    def _line(self, rank: Rank) -> tuple[float, float, float]:
        """Rank part of the next decode step, its rise per step, and for how many steps that holds."""
        batch = len(rank.residents)
        time, rise, room = self._law.decode_line(batch, rank.context / batch if batch else 0.0)
        return time, rise * self._gain, room / self._gain

    def _end_stretch(self, now_s: float) -> None:
        steps = self._stretch
        held = sum(rank.context for rank in self.ranks)
        held += self._gain * self._batch * (steps - 1) / 2.0
        self._log.states.extend((self._start_s, now_s - self._start_s, self._batch, held))
        self._record(steps, self._step_s, self._rise_s)
        self._grow(steps)
        self._token_s = now_s

    def _grow(self, steps: int) -> None:
        self._steps += steps
        log = self._log
        log.tokens += self._gain * steps * self._batch
        for rank in self.ranks:
            rank.context += self._gain * steps * len(rank.residents)
            rank.kv += steps * rank.growth
            log.most_kv_bytes = max(log.most_kv_bytes, rank.kv)

    def _record(self, steps: int, step_s: float, rise_s: float) -> None:
        """Gaps of a stretch: the first also holds what residents stood still for, or waited since their last token."""
        log, ledger, start_s = self._log, self._ledger, self._start_s
        old, late = self._batch - len(self._fresh), 0
        paused = start_s - self._token_s > _ROUNDING and old > 0
        for request, token_s in self._fresh.items():
            gap = step_s + start_s - token_s
            if ledger.first_gap_s[request] != ledger.first_gap_s[request]:
                ledger.first_gap_s[request] = gap
                ledger.batch[request] = self._batch
            if start_s - token_s > _ROUNDING:
                log.gaps.extend((start_s, gap, 1))
                late += 1
        self._fresh.clear()
        if not (paused or late):
            log.gaps.extend((start_s, step_s + rise_s * (steps - 1) / 2.0, steps * self._batch))
            return
        if old:
            log.gaps.extend((start_s, step_s + (start_s - self._token_s if paused else 0.0), old))
        together = self._batch - old - late
        if together:
            log.gaps.extend((start_s, step_s, together))
        if steps > 1:
            log.gaps.extend((start_s, step_s + rise_s * steps / 2.0, (steps - 1) * self._batch))

    def _collect(self, now_s: float, left: list[tuple[int, int]]) -> None:
        """Residents whose last step has ended."""
        for index, rank in enumerate(self.ranks):
            finish = rank.finish
            while finish and finish[0][0] <= self._steps:
                step, request = heappop(finish)
                if rank.residents.get(request) == step:
                    self._leave(rank, request, 0)
                    self._ledger.finished_s[request] = now_s
                    left.append((index, request))
