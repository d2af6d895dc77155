# SPDX-License-Identifier: Apache-2.0
"""
Where a delta query goes on: the delta links of earlier Dag runs.

Each run keeps the link that it ended with in an XCom, beside its result, together with the id of the run
whose link was the newest when it began. So the earlier runs are a list, newest first, and a run that failed
is passed over. A link counts only if its whole Dag run has succeeded: what a later task has not dealt with
must come again.

Works in the triggerer and on a worker. The order is that of logical dates, or for runs that have none, of
when their links were kept; in one Dag, runs should either have logical dates or not.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore, ask

log = logging.getLogger(__name__)

DELTA_KEY = "delta_link"
SUCCESS = "success"
LONGEST_WALK = 100


class DeltaRecord(msgspec.Struct, frozen=True):
    """
    What a run keeps.

    :param link: its delta link. It has a token in it.
    :param run_id: the Dag run.
    :param previous: the run whose record was the newest when this run began, or None.
    """

    link: str
    run_id: str
    previous: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(run_id={self.run_id!r}, previous={self.previous!r})"


class DeltaRecords:
    """
    The records of one task over the runs of its Dag.

    :param place: the task instance that asks.
    :param timeout: seconds to wait for the answer to one message.
    """

    def __init__(self, place: XComPlace, timeout: float) -> None:
        self._place = place
        self._timeout = timeout

    async def begin(self) -> DeltaRecord | None:
        """Return the newest record of another run; drop the one that an earlier try of this run has left."""
        newest = await self._newest()
        if newest is None or newest.run_id != self._place.run_id:
            return newest
        await self._store(self._place.run_id).delete(DELTA_KEY)
        return await self._newest()

    async def base(self, newest: DeltaRecord | None) -> DeltaRecord | None:
        """
        Find the newest record whose Dag run has succeeded; say in the log if everything must be fetched.

        :param newest: what :meth:`begin` returned.
        """
        if newest is None:
            await self._explain_none()
            return None
        record: DeltaRecord | None = newest
        for _ in range(LONGEST_WALK):
            if record is None or await self._state(record.run_id) == SUCCESS:
                break
            record = await self._before(record)
        else:
            record = None
        if record is None:
            log.info("No earlier run with a delta link has succeeded: everything is fetched")
        else:
            log.info("What changed since run %s is fetched", record.run_id)
        return record

    async def keep(self, link: str, newest: DeltaRecord | None) -> None:
        """
        Keep this run's delta link.

        :param link: the link.
        :param newest: what :meth:`begin` returned.
        """
        run_id = self._place.run_id
        previous = None if newest is None else newest.run_id
        await self._store(run_id).set(DELTA_KEY, msgspec.to_builtins(DeltaRecord(link, run_id, previous)))

    async def _newest(self) -> DeltaRecord | None:
        place = self._place._asdict()
        message = lambda: _compat.read_newest_xcom(key=DELTA_KEY, **place)  # noqa: E731
        return _record(await ask("read", DELTA_KEY, self._timeout, message))

    async def _before(self, record: DeltaRecord) -> DeltaRecord | None:
        if record.previous is None:
            return None
        before = _record(await self._store(record.previous).get(DELTA_KEY))
        if before is None:
            log.warning(
                "The delta link of run %s is gone: was its XCom %r cleaned?", record.previous, DELTA_KEY
            )
        return before

    async def _state(self, run_id: str) -> str:
        dag_id = self._place.dag_id
        message = lambda: _compat.dag_run_state(dag_id, run_id)  # noqa: E731
        state: str = await ask("read", DELTA_KEY, self._timeout, message)
        return state

    async def _explain_none(self) -> None:
        dag_id = self._place.dag_id
        message = lambda: _compat.count_dag_runs(dag_id, SUCCESS)  # noqa: E731
        succeeded = await ask("read", DELTA_KEY, self._timeout, message)
        if succeeded:
            log.warning(
                "%d runs of this Dag have succeeded, but none before this one has a delta link: the XComs %r "
                "were cleaned, or those runs made no delta query. Everything is fetched",
                succeeded,
                DELTA_KEY,
            )
        else:
            log.info("This is the first run with a delta query: everything is fetched")

    def _store(self, run_id: str) -> XComStore:
        return XComStore(self._place._replace(run_id=run_id), self._timeout)


def _record(row: Any) -> DeltaRecord | None:
    try:
        return None if row is None else msgspec.convert(row, DeltaRecord)
    except msgspec.ValidationError:
        log.warning("The XCom %r was written by somebody else; it is not used", DELTA_KEY)
        return None
