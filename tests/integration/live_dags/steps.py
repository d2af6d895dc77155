# SPDX-License-Identifier: Apache-2.0
"""Live consumers with steps, further inputs, resources and constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag, task
from evidence import write_down
from live_probes import GatedOperator

from airflow_provider_iteration import iterate, stream


@contextmanager
def transaction() -> Iterator[str]:
    """Say how the work of a stay on a worker ends."""
    try:
        yield "open"
    except BaseException as error:
        write_down("transactions", "rolled-back", type(error).__name__)
        raise
    write_down("transactions", "committed")


@task
def listed(values: Any) -> list[Any]:
    return list(values)


@task
def collected(items: Any) -> list[Any]:
    return list(items)


@task
def branched(word: str) -> str:
    return word


def is_even(text: str) -> bool:
    return int(text.partition("-")[2]) % 2 == 0


def as_pages(text: str) -> list[str]:
    return [text, f"{text}!"]


def as_arguments(texts: list[str]) -> dict[str, str]:
    return {"text": "+".join(texts)}


def as_command(text: str) -> str:
    return f"echo {text}"


@iterate(task_concurrency=2)
def labelled(pair: tuple[str, str]) -> str:
    write_down("shorter.seen", pair[0])
    return ":".join(pair)


@iterate(task_concurrency=2)
def crossed(item: str, other: str) -> str:
    return item + other


@iterate(task_concurrency=2, resources={"session": transaction})
def written(text: str, prefix: str, session: str) -> str:
    return f"{prefix} {session} {text}"


@dag(schedule=None)
def shorter() -> None:
    """Two items are all that it needs."""
    pages = GatedOperator(task_id="pages", name="shorter").output
    labels = listed.override(task_id="labels")(["one", "two"])
    collected(labelled.iterate(pair=stream(pages).zip(stream(labels)).live(starve_seconds=1)))


@dag(schedule=None)
def nothing_beside() -> None:
    """The cross product of a live input with nothing has no items."""
    pages = GatedOperator(task_id="pages", name="nothing_beside").output
    crossed.iterate(item=stream(pages).live(starve_seconds=1), other=listed.override(task_id="none")([]))


@dag(schedule=None)
def all_steps() -> None:
    """Every step, mappings of arguments, a constant of another task, and a resource; it starves once."""
    pages = GatedOperator(task_id="pages", name="all_steps").output
    more = listed.override(task_id="more")([["x", "y"], "z"])
    texts = stream(pages).filter(is_even).map(as_pages).flatten().concat(stream(more).flatten())
    prefix = branched.override(task_id="prefix")("to")
    consumer = written.partial(prefix=prefix)
    collected(consumer.iterate_kwargs(texts.batched(2).map(as_arguments).live(starve_seconds=1)))


@dag(schedule=None)
def commands() -> None:
    """An operator for each item."""
    pages = GatedOperator(task_id="pages", name="commands").output
    echoed = iterate(BashOperator.partial(task_id="echoed")).iterate(
        bash_command=stream(pages).map(as_command).live()
    )
    collected(echoed.output)


@dag(schedule=None)
def not_chosen() -> None:
    """A branch that goes past the consumer."""
    pages = GatedOperator(task_id="pages", name="not_chosen").output

    @task.branch
    def choose() -> str:
        return "chosen"

    choice = choose()
    choice >> branched.override(task_id="chosen")("yes")
    choice >> crossed.partial(other="never").iterate(item=stream(pages).live())


for make in (shorter, nothing_beside, all_steps, commands, not_chosen):
    make()
