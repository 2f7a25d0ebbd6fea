"""Slots in order of time, compared with a plain dict."""

from __future__ import annotations

import random

import numpy as np

from freshet.state.agenda import Agenda
from freshet.state.arena import Arena


def test_due_slots_are_those_of_a_dict() -> None:
    for seed in range(60):
        chosen, agenda, twin = random.Random(seed), Agenda(Arena().scope("agenda")), dict[int, int]()
        now = 0
        for _ in range(40):
            free = [s for s in range(60) if s not in twin]
            new = chosen.sample(free, min(len(free), chosen.randrange(12)))
            times = [now + 1 + chosen.randrange(20) for _ in new]
            agenda.put(np.array(new, np.int32), np.array(times, np.int64))
            twin.update(zip(new, times, strict=True))
            gone = chosen.sample(sorted(twin), min(len(twin), chosen.randrange(6)))
            agenda.take(np.array(gone, np.int32))
            for slot in gone:
                del twin[slot]
            assert len(agenda) == len(twin)
            assert agenda.first == min(twin.values(), default=None)
            now += chosen.randrange(6)
            due = agenda.due(now).tolist()
            assert sorted(due) == sorted(s for s, time in twin.items() if time <= now)
            for slot in due:
                del twin[slot]
        agenda.clear()
        assert len(agenda) == 0 and agenda.first is None and not len(agenda.due(now + 100))


def test_due_slots_come_in_order_of_time() -> None:
    agenda = Agenda(Arena().scope("agenda"))
    times = np.random.default_rng(1).permutation(1_000)
    agenda.put(np.arange(1_000, dtype=np.int32), times.astype(np.int64))
    assert times[agenda.due(499)].tolist() == list(range(500))
    assert times[agenda.due(2_000)].tolist() == list(range(500, 1_000))
