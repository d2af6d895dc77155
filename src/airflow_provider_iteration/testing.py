# SPDX-License-Identifier: Apache-2.0
"""
Tests of one's own triggers and Dags, without a running Airflow.

The helpers for triggers run a :class:`~.triggers.streaming.StreamingTrigger` as a triggerer does: made anew
from what it serialises to, with a task instance, until its first event. Its rows stay in memory. They raise
``AssertionError`` where the trigger does not keep what streams promise.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import msgspec
from airflow.sdk import DAG, TriggerRule
from airflow.triggers.base import BaseTrigger, TriggerEvent
from airflow.triggers.shared_stream import SharedStreamManager

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.input_field import live_in
from airflow_provider_iteration.operators.live import LiveIterableOperator
from airflow_provider_iteration.streams import ChunkReader, Head, Page, head_key
from airflow_provider_iteration.streams.codec import dump_text
from airflow_provider_iteration.streams.events import check_page, open_source
from airflow_provider_iteration.streams.memory import MemoryStore
from airflow_provider_iteration.triggers.events import StreamingEventTrigger
from airflow_provider_iteration.triggers.streaming import StreamingTrigger

__all__ = [
    "AssetState",
    "Interruption",
    "MemoryStore",
    "TriggerRun",
    "give_task",
    "in_order",
    "remade",
    "run_interrupted",
    "run_trigger",
    "run_twice",
    "watch",
]

RUN_ID = "0190f000-0000-7000-8000-0000aaaaaaaa"

AnyTrigger = TypeVar("AnyTrigger", bound=BaseTrigger)


class TriggerRun(NamedTuple):
    """
    What a run of a trigger left.

    :param event: its first event: the only one that Airflow hands to the task.
    :param elements: the elements of its stream.
    :param pages: how many pages the stream has.
    :param duplicates: how many pages came again, and were dropped.
    """

    event: TriggerEvent
    elements: list[Any]
    pages: int
    duplicates: int


class Interruption(NamedTuple):
    """
    What a trigger left that was killed and started again.

    :param elements: the elements of its stream.
    :param committed: how many pages were committed when it was killed.
    :param repeated: how many pages were fetched before and again after that.
    """

    elements: list[Any]
    committed: int
    repeated: int


async def run_trigger(trigger: StreamingTrigger, *, store: MemoryStore | None = None) -> TriggerRun:
    """
    Run a trigger until its first event, and no further: that is what Airflow does with a task's trigger.

    :param trigger: the trigger, as ``make_trigger`` of the operator returns it.
    :param store: where its rows go; ``MemoryStore(before=...)`` can delay messages, or let them fail.
    :return: what it left; all pages are in its stream by then.
    """
    store = MemoryStore() if store is None else store
    return await _run(_Watched(trigger, store))


async def run_twice(trigger: StreamingTrigger) -> TriggerRun:
    """
    Run a trigger to its end, and again, as if nobody knew that it had ended: every page comes twice.

    :return: what the second run left.
    :raises AssertionError: if the pages of the second run are others. Pages are the same event if they have
        the same run id and number, so a source has to yield the same ones again.
    """
    store = MemoryStore()
    once, again = _Watched(trigger, store), _Watched(trigger, store)
    first = await _run(once)
    _forget_end(store, trigger.stream_options.key)
    second = await _run(again)
    _check_equal(second.elements, first.elements, "delivered twice")
    if second.duplicates != first.pages:
        raise AssertionError(
            f"the second delivery had {second.duplicates} pages where the first had {first.pages}: pages() "
            "must yield the same pages again"
        )
    if (place := _first_difference(again.payloads, once.payloads)) is not None:
        raise AssertionError(
            f"page {place} of the second delivery differs from that of the first, and was dropped as if it "
            "were the same: pages() must yield the same pages again"
        )
    return second


async def run_interrupted(trigger: StreamingTrigger, *, after_pages: int) -> Interruption:
    """
    Kill a trigger after some pages, start it again, and compare the stream with an undisturbed one.

    :param trigger: the trigger.
    :param after_pages: when to kill it: once it has fetched so many pages, before the next one.
    :raises AssertionError: if elements are lost, repeated or changed, or if more pages than
        ``max_uncommitted_pages`` were asked for again.
    :raises ValueError: if the stream has no page after these.
    """
    undisturbed = await run_trigger(trigger)
    if not 0 < after_pages < undisturbed.pages:
        raise ValueError(f"after_pages: expected 1 to {undisturbed.pages - 1}, got {after_pages}")
    killed, rows = await _killed(trigger, after_pages)
    resumed = _Watched(trigger, MemoryStore(rows=rows))
    left = await _run(resumed)
    head = _head(rows, trigger.stream_options.key)
    _check_equal(left.elements, undisturbed.elements, "killed and started again")
    repeated = killed + resumed.fetched - undisturbed.pages
    allowed = trigger.stream_options.max_uncommitted_pages
    if repeated > allowed:
        raise AssertionError(
            f"{repeated} pages were asked for again, at most max_uncommitted_pages={allowed} may be: is the "
            "cursor of each page set, and does pages(cursor) begin after it?"
        )
    return Interruption(left.elements, head.pages, repeated)


class AssetState:
    """
    The state store of one asset, in memory.

    ``values`` has what is kept, as JSON texts.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return json.loads(self.values[key]) if key in self.values else default

    def set(self, key: str, value: Any) -> None:
        """Keep a value, which is JSON, under a key."""
        self.values[key] = json.dumps(value, allow_nan=False)


async def watch(
    trigger: StreamingEventTrigger,
    *,
    events: int,
    state: AssetState | None = None,
    confirm: bool = True,
    seconds: float = 30.0,
) -> list[Any]:
    """
    Run an asset watcher until it has yielded some events, and kill it.

    :param trigger: the watcher.
    :param events: how many events to wait for.
    :param state: state of its asset; give the same one to the next run, and it goes on from there.
    :param confirm: whether Airflow says of the events that they are recorded; False is a triggerer that is
        killed between the two.
    :param seconds: how long to wait for them at most.
    :return: the payloads of the events, as the asset gets them.
    :raises TimeoutError: if they do not come in time.
    """
    if not isinstance(trigger, StreamingEventTrigger):
        raise TypeError(f"trigger: expected a StreamingEventTrigger, got {type(trigger).__name__}")
    trigger = remade(trigger)
    trigger.trigger_id = 1
    asset = AssetState() if state is None else state
    trigger.asset_stores = [asset]
    manager = SharedStreamManager()
    payloads: list[Any] = []
    done = asyncio.Event()
    running = asyncio.create_task(_record(trigger, manager, payloads, events, done, confirm))
    try:
        async with asyncio.timeout(seconds):
            await _first_of(running, done.wait())
            if confirm and payloads:
                index = payloads[-1]["sequence_index"]
                await _first_of(running, _kept(asset, trigger.state_key(), index))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await manager.stop_all()
    return payloads


def in_order(dag: DAG) -> DAG:
    """
    Have the live tasks of a Dag begin when their upstream tasks have succeeded, for ``dag.test()``.

    That runs one task at a time and has no triggerer to wait in. Such a task, iterated or plain, then reads
    all that is there. The Dag is changed: do this in a test, or under ``if __name__ == "__main__":``.

    :param dag: the Dag.
    :return: the same Dag.
    """
    for task in dag.tasks:
        if isinstance(task, LiveIterableOperator):
            task.start_from_trigger = False
        elif not any(live_in([getattr(task, name, None) for name in task.template_fields])):
            continue
        task.trigger_rule = TriggerRule.ALL_SUCCESS
    return dag


def remade(trigger: AnyTrigger) -> AnyTrigger:
    """
    Return a trigger as another process gets it: made from what it serialises to.

    :raises AssertionError: if its class path is wrong, or an argument is not JSON.
    """
    classpath, arguments = trigger.serialize()
    kind = type(trigger)
    expected = f"{kind.__module__}.{kind.__qualname__}"
    if classpath != expected:
        raise AssertionError(f"serialize() names the class {classpath}, it is {expected}")
    try:
        text = json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"serialize() returns arguments that are not JSON: {error}") from None
    try:
        return kind(**json.loads(text))
    except TypeError as error:
        raise AssertionError(
            f"{kind.__name__} cannot be made from what serialize() returns: {error}. Its __init__ takes "
            "everything that arguments() names, and what its base class takes (stream=None, for one), which "
            "it passes on"
        ) from error


def give_task(
    trigger: BaseTrigger, id: str = RUN_ID, *, dag_id: str = "dag", task_id: str = "task", run_id: str = "run"
) -> None:
    """
    Give a trigger a task instance, as a triggerer does that starts it after a deferral.

    :param trigger: the trigger.
    :param id: id of the task instance.
    :param dag_id: its Dag.
    :param task_id: its task.
    :param run_id: its Dag run.
    """
    instance: Any = SimpleNamespace(
        id=id, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=-1, try_number=1
    )
    trigger.task_instance = instance


class _Watched:
    """A trigger that is ready to run, whose pages are counted, and can be held."""

    def __init__(self, trigger: StreamingTrigger, store: MemoryStore, hold_after: int | None = None) -> None:
        if not isinstance(trigger, StreamingTrigger):
            raise TypeError(
                f"trigger: expected a StreamingTrigger, got {type(trigger).__name__}; "
                "StreamingTrigger.from_trigger() makes one of any other trigger, and watch() runs watchers"
            )
        self.trigger = remade(trigger)
        self.store = store
        self.payloads: list[Any] = []
        self.held = asyncio.Event()
        self._hold_after = hold_after
        self._pages = self.trigger.pages
        self.trigger.row_store = store
        # No test has to wait for what only live readers and schedulers need.
        self.trigger.stream_options = msgspec.structs.replace(
            trigger.stream_options, linger=0.0, min_seconds=0.0
        )
        self.trigger.pages = self._counted  # type: ignore[method-assign]
        give_task(self.trigger)

    async def _counted(self, cursor: Any) -> AsyncGenerator[Page, None]:
        async with aclosing(open_source(self._pages, cursor)) as pages:
            async for page in pages:
                check_page(page)
                self.payloads.append(page.payload)
                yield page
                if self.fetched == self._hold_after:
                    self.held.set()
                    await asyncio.Event().wait()

    @property
    def fetched(self) -> int:
        return len(self.payloads)


async def _run(watched: _Watched) -> TriggerRun:
    trigger, key = watched.trigger, watched.trigger.stream_options.key
    known = watched.store.read(head_key(key))
    async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
        event = await anext(events)
    await trigger.cleanup()
    head = _head(watched.store.rows, key)
    before = 0 if known is None else Head.from_row(known).pages
    return TriggerRun(
        event, _elements(watched.store, key, head), head.pages, watched.fetched + before - head.pages
    )


async def _killed(trigger: StreamingTrigger, after_pages: int) -> tuple[int, dict[str, str]]:
    watched = _Watched(trigger, MemoryStore(), hold_after=after_pages)
    running = asyncio.create_task(watched.trigger.stream())
    await _first_of(running, watched.held.wait())
    # The rows as they are now: what is written while the trigger is cancelled, a killed one never writes.
    rows = dict(watched.store.rows)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await watched.trigger.cleanup()
    return watched.fetched, rows


async def _first_of(running: asyncio.Task[Any], reached: Coroutine[Any, Any, Any]) -> None:
    waiting = asyncio.create_task(reached)
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if running.done():
        running.result()


def _forget_end(store: MemoryStore, key: str) -> None:
    head = _head(store.rows, key)
    forgetful = msgspec.structs.replace(head, last=False, cursor=None)
    store.rows[head_key(key)] = json.dumps(forgetful.to_row())


def _head(rows: Mapping[str, str], key: str) -> Head:
    return Head.from_row(json.loads(rows[head_key(key)]))


def _elements(store: MemoryStore, key: str, head: Head) -> list[Any]:
    reader = ChunkReader(
        store.read, key=key, run=head.run, extents=head.extents, task="the task", foreign=_compat.from_serde
    )
    return list(reader.items(0, len(reader)))


def _check_equal(found: list[Any], expected: list[Any], what: str) -> None:
    place = _first_difference(found, expected)
    if place is None and len(found) == len(expected):
        return
    where = f"element {place} differs" if place is not None else "the others are equal"
    raise AssertionError(
        f"a stream that was {what} has {len(found)} elements, an undisturbed one {len(expected)}; {where}"
    )


def _first_difference(found: list[Any], expected: list[Any]) -> int | None:
    # As texts, so that NaN is equal to itself.
    pairs = enumerate(zip(found, expected, strict=False))
    return next((number for number, (one, other) in pairs if not _are_equal(one, other)), None)


def _are_equal(one: Any, other: Any) -> bool:
    # As texts, NaN is equal to itself.
    return one == other or dump_text(one, _compat.to_serde) == dump_text(other, _compat.to_serde)


async def _record(
    trigger: StreamingEventTrigger,
    manager: SharedStreamManager,
    payloads: list[Any],
    events: int,
    done: asyncio.Event,
    confirm: bool,
) -> None:
    key = trigger.shared_stream_key()
    shared = manager.subscribe(trigger_id=1, trigger=trigger, key=key)
    async for event in trigger.filter_shared_stream(shared):
        if len(payloads) == events:
            # It is not recorded any more.
            await asyncio.Event().wait()
        number = manager.bind_pending_event(trigger_id=1, key=key)
        payloads.append(json.loads(json.dumps(event.payload)))
        if confirm and number is not None:
            # As in a triggerer, after the trigger has gone on.
            asyncio.get_running_loop().call_soon(manager.confirm_persisted, [number])
        if len(payloads) == events:
            done.set()


async def _kept(asset: AssetState, key: str, index: int) -> None:
    # It is written in a thread.
    while asset.get(key)["index"] <= index:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
