# SPDX-License-Identifier: Apache-2.0
"""
Streams: ordered, append-only sequences with one writer and any number of lazy readers.

The modules here are pure (they import no Airflow), except the adapters :mod:`.xcom_store`, which keeps a
stream's rows in Airflow's XComs, and :mod:`.asset_store`, which keeps a watcher's place with its asset.
"""

from __future__ import annotations

from airflow_provider_iteration.streams.events import Page, StreamEvent
from airflow_provider_iteration.streams.head import Extent, Head, chunk_key, head_key
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.ordering import EventBatch, EventOrder
from airflow_provider_iteration.streams.pacing import Pace, shared_pace
from airflow_provider_iteration.streams.pausing import Pause
from airflow_provider_iteration.streams.producer import produce
from airflow_provider_iteration.streams.reader import ChunkReader
from airflow_provider_iteration.streams.recorded import RecordedEvent, Watermark, unread
from airflow_provider_iteration.streams.store import RowStore
from airflow_provider_iteration.streams.writer import StreamWriter

__all__ = [
    "ChunkReader",
    "EventBatch",
    "EventOrder",
    "Extent",
    "Head",
    "Pace",
    "Page",
    "Pause",
    "RecordedEvent",
    "RowStore",
    "StreamEvent",
    "StreamOptions",
    "StreamWriter",
    "Watermark",
    "chunk_key",
    "head_key",
    "produce",
    "shared_pace",
    "unread",
]
