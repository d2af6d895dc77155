# SPDX-License-Identifier: Apache-2.0
"""
The XCom backend of this package.

Airflow imports this module while its own are being imported, in every process: nothing else of this
package, and no configuration, is touched before an XCom is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.xcom import BaseXCom

if TYPE_CHECKING:
    from airflow_provider_iteration.streams.xcom_store import XComPlace


class XComIterableBackend(BaseXCom):
    """
    An XCom backend around another one, ``[iteration] base_xcom_backend``, by default Airflow's own.

    *What it does*: it reads the references of streams in any process. If asked to, it stores lists of more
    than ``[iteration] lazy_list_items`` items as streams, which come back as
    :class:`~airflow_provider_iteration.xcom.iterable.XComIterable`, and values of more than
    ``[iteration] offload_bytes`` bytes in object storage. A task that returns a generator gets an error that
    says what to do. Deleting an XCom deletes what is kept for it elsewhere.

    *What it does not do*: any other value is stored by the wrapped backend, byte for byte. Of that one,
    only ``serialize_value``, ``deserialize_value`` and ``purge`` are used, which are what Airflow documents
    for backends.

    *Known gaps*: Airflow tells a backend neither of a deleted Dag run nor of an XCom that is replaced. Files
    that stay behind are removed by ``airflow iteration gc``. Files are read in the calling thread, also by
    the asynchronous methods.
    """

    @classmethod
    def set(
        cls,
        key: str,
        value: Any,
        *,
        dag_id: str,
        task_id: str,
        run_id: str,
        map_index: int = -1,
        **options: Any,
    ) -> None:
        """Store a value, as ``BaseXCom.set`` does."""
        from airflow_provider_iteration.xcom import stored
        from airflow_provider_iteration.xcom.iterable import XComIterable

        place = stored.place_of_ids(dag_id, task_id, run_id, map_index)
        ids: dict[str, Any] = place._asdict()
        if (split := stored.split(key, value)) is not None:
            # The reference last: a reader never finds one whose rows are still to come.
            for row_key, row in split.rows.items():
                super().set(row_key, row, **ids)
            value = XComIterable.of_head(place, key, split.head)
        super().set(key, value, **ids, **options)
        _deleted.discard((place, key))

    @classmethod
    async def aset(
        cls,
        key: str,
        value: Any,
        *,
        dag_id: str,
        task_id: str,
        run_id: str,
        map_index: int = -1,
        **options: Any,
    ) -> None:
        """Store a value, as ``BaseXCom.aset`` does. What takes more than a row is done in a thread."""
        from airflow_provider_iteration.xcom import stored

        ids: dict[str, Any] = stored.place_of_ids(dag_id, task_id, run_id, map_index)._asdict()
        if stored.is_blocking(key, value):
            await asyncio.to_thread(lambda: cls.set(key, value, **ids, **options))
        else:
            await super().aset(key, value, **ids, **options)

    @staticmethod
    def serialize_value(
        value: Any,
        *,
        key: str | None = None,
        task_id: str | None = None,
        dag_id: str | None = None,
        run_id: str | None = None,
        map_index: int | None = None,
    ) -> Any:
        """
        Return what the database is to hold for a value.

        :raises TypeError: for a generator, and for a lazy view of items.
        """
        from airflow_provider_iteration import _compat
        from airflow_provider_iteration.xcom import stored
        from airflow_provider_iteration.xcom.iterable import XComIterable
        from airflow_provider_iteration.xcom.offloading import offloaded

        stored.refuse_unread(value)
        if type(value) is XComIterable:
            return BaseXCom.serialize_value(value)
        serialized = stored.wrapped_backend().serialize_value(
            value, key=key, task_id=task_id, dag_id=dag_id, run_id=run_id, map_index=map_index
        )
        if dag_id is None or task_id is None or run_id is None or key == _compat.SKIPPED_KEY:
            return serialized
        return offloaded(serialized, stored.place_of_ids(dag_id, task_id, run_id, map_index))

    @staticmethod
    def deserialize_value(result: Any) -> Any:
        """
        Give back the value of a row.

        :raises MissingFile: if it is in object storage, and its file is gone.
        """
        from airflow_provider_iteration.xcom import stored
        from airflow_provider_iteration.xcom.offloading import OffloadedValue

        if (file := OffloadedValue.find(result.value)) is not None:
            result = stored.Stored(file.read())
        elif (reference := stored.find_reference(result.value)) is not None:
            return reference
        return stored.wrapped_backend().deserialize_value(result)

    @classmethod
    def purge(cls, xcom: Any, *args: Any) -> None:
        """Remove what is kept outside the database for a row."""
        from airflow_provider_iteration.exceptions import MissingFile
        from airflow_provider_iteration.xcom import stored
        from airflow_provider_iteration.xcom.offloading import OffloadedValue

        wrapped = stored.wrapped_backend()
        if (file := OffloadedValue.find(xcom.value)) is None:
            wrapped.purge(xcom, *args)
            return
        if wrapped is not BaseXCom:  # Airflow's own keeps nothing: the file need not be read
            try:
                wrapped.purge(stored.Stored(file.read()), *args)
            except MissingFile:
                return
        file.delete()

    @classmethod
    def delete(cls, key: str, task_id: str, dag_id: str, run_id: str, map_index: int | None = None) -> None:
        """Delete an XCom with its chunks and files."""
        from airflow_provider_iteration import _compat
        from airflow_provider_iteration.xcom import stored

        place = stored.place_of_ids(dag_id, task_id, run_id, map_index)
        if (place, key) in _deleted:
            _deleted.remove((place, key))
            return
        row = _compat.stored_xcom(key=key, **place._asdict())
        # The row first: a reader never finds a reference to what is going.
        _compat.delete_stored_xcom(key=key, **place._asdict())
        cls.purge(row)
        for chunk in stored.own_chunks(row.value, place, key):
            cls.delete(chunk, task_id, dag_id, run_id, map_index)
            _deleted.add((place, chunk))


_deleted: set[tuple[XComPlace, str]] = set()
"""Chunks that went with their reference. Who deletes a task's XComs, as each try does, names them too."""
