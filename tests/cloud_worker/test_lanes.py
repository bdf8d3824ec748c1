"""Threads and the way back from them."""

from __future__ import annotations

import select
import threading

from cloud_worker._lanes import Lane, Mailbox


def readable(mailbox: Mailbox[int]) -> bool:
    return bool(select.select([mailbox.fileno()], [], [], 0)[0])


class TestMailbox:
    def test_items_come_out_in_order_and_once(self) -> None:
        mailbox: Mailbox[int] = Mailbox()
        assert not readable(mailbox)
        for item in range(3):
            mailbox.post(item)
        assert readable(mailbox)
        assert mailbox.take() == [0, 1, 2]
        assert not readable(mailbox)
        assert mailbox.take() == []
        mailbox.close()

    def test_more_items_than_wake_ups_fit(self) -> None:
        mailbox: Mailbox[int] = Mailbox()
        for item in range(100_000):
            mailbox.post(item)
        assert mailbox.take() == list(range(100_000))
        mailbox.close()

    def test_items_of_many_threads_all_arrive(self) -> None:
        mailbox: Mailbox[int] = Mailbox()
        threads = [
            threading.Thread(
                target=lambda first=first: [mailbox.post(first + n) for n in range(50)]
            )
            for first in range(0, 400, 50)
        ]
        for thread in threads:
            thread.start()
        taken: list[int] = []
        while len(taken) < 400:
            select.select([mailbox.fileno()], [], [])
            taken += mailbox.take()
        for thread in threads:
            thread.join()
        assert sorted(taken) == list(range(400))
        mailbox.close()

    def test_post_after_the_end_is_harmless(self) -> None:
        mailbox: Mailbox[int] = Mailbox()
        mailbox.close()
        mailbox.post(1)


class TestLane:
    def test_things_are_done_in_order_on_one_other_thread(self) -> None:
        done: list[tuple[int, int]] = []
        lane: Lane[int] = Lane("lane", lambda item: done.append((item, threading.get_ident())))
        for item in range(100):
            lane.put(item)
        assert lane.stop(30.0)
        assert [item for item, _ in done] == list(range(100))
        assert {ident for _, ident in done}.isdisjoint({threading.get_ident()})
        assert len({ident for _, ident in done}) == 1

    def test_lane_that_does_not_end_is_left(self) -> None:
        gate = threading.Event()
        lane: Lane[int] = Lane("lane", lambda _item: gate.wait() and None)
        lane.put(1)
        assert not lane.stop(0.0)
        gate.set()
        assert lane.stop(30.0)
