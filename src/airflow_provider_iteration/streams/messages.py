# SPDX-License-Identifier: Apache-2.0
"""Messages to Airflow that block, sent from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_provider_iteration.exceptions import StoreTimeout

THREADS = 4


async def ask(call: Callable[[], Any], *, action: str, what: str, timeout: float) -> Any:  # noqa: ASYNC109
    """
    Send one message in a thread, and wait for its answer.

    The threads are these messages' own: those of the event loop belong to everyone's triggers.

    :param call: sends the message, and returns the answer.
    :param action: what is asked for, such as ``"write"``, for the error.
    :param what: what it is about, such as ``"XCom 'return_value'"``.
    :param timeout: seconds to wait. Airflow does not answer some messages at all.
    :raises StoreTimeout: if no answer came in time.
    """
    answer = asyncio.get_running_loop().run_in_executor(_pool(), call)
    try:
        async with asyncio.timeout(timeout):
            return await answer
    except TimeoutError:
        _abandon_pool()
        raise StoreTimeout(action, what, timeout) from None


_executor: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(THREADS, thread_name_prefix="stream-xcom")
    return _executor


def _abandon_pool() -> None:
    """Leave the threads that wait for an answer to themselves, lest others queue behind them."""
    global _executor
    if _executor is not None:
        _executor.shutdown(wait=False)
        _executor = None
