"""The same work for many scenarios: in processes where there is more than one, answers in the order asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def answers(
    work: Callable[[Item], Answer], items: Sequence[Item], jobs: int, warm: Callable[[], object]
) -> Iterator[Answer]:
    """`work` of every item, in order.

    Parameters
    ----------
    work : callable
        Of the module level, so that a process can find it; it reports its own faults.
    jobs : int
        Processes at most. One, or a single item, stays in this process.
    warm : callable
        Loads what every item needs. On Linux it runs once, before the processes are forked.
    """
    if min(jobs, len(items)) < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    forked = sys.platform == "linux"
    if forked:
        warm()
    pool = ProcessPoolExecutor(
        max_workers=min(jobs, len(items)),
        mp_context=get_context("fork" if forked else "spawn"),
        initializer=_ignore_interrupts if forked else partial(_begin, warm),
    )
    try:
        with _interrupts_held():  # a process that has just begun is not yet known, and nobody would end it
            found = pool.map(work, items)
        yield from found
    finally:
        for process in active_children():  # after an interrupt there is nobody left to answer to
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """An interrupt waits until this is over."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(warm: Callable[[], object]) -> None:
    _ignore_interrupts()
    warm()


def _ignore_interrupts() -> None:
    """Leave an interrupt to the process that waits: it ends the others."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
