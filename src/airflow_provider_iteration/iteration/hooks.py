# SPDX-License-Identifier: Apache-2.0
"""What else happens around an item: its label, its callbacks, its own XCom."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import attrs
import structlog
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_iteration.iteration.attempts import Item

log = structlog.get_logger(__name__)

XComLayout: TypeAlias = Literal["chunks", "indexed"]
Callback: TypeAlias = Callable[[Mapping[str, Any]], Any]
LOGGED_CHARACTERS = 1000


@attrs.frozen(kw_only=True)
class ItemOptions:
    """
    What a user may set about each item.

    :param item_label: a template of the item's arguments and context, or a function of its arguments, that
        names it in logs and errors.
    :param on_item_failed: called with the context of each item that has failed for good; its error is
        ``context["exception"]``.
    :param xcom_layout: ``"chunks"`` keeps many results to a row. ``"indexed"`` also pushes each result as
        ``return_value_<index>``: one request, and one row, an item.
    :param show_return_value_in_logs: logs a line with the result of each item, cut to 1,000 characters.
    """

    item_label: str | Callable[[Mapping[str, Any]], str] | None = None
    on_item_failed: Callback | None = None
    xcom_layout: XComLayout = "chunks"
    show_return_value_in_logs: bool = False

    def __attrs_post_init__(self) -> None:
        if not (self.item_label is None or isinstance(self.item_label, str) or callable(self.item_label)):
            raise TypeError(
                f"item_label: expected a template or a function, got {type(self.item_label).__name__}"
            )
        if not (self.on_item_failed is None or callable(self.on_item_failed)):
            raise TypeError(f"on_item_failed: expected a function, got {type(self.on_item_failed).__name__}")
        if self.xcom_layout not in get_args(XComLayout):
            choices = " or ".join(map(repr, get_args(XComLayout)))
            raise ValueError(f"xcom_layout: expected {choices}, got {self.xcom_layout!r}")
        if not isinstance(self.show_return_value_in_logs, bool):
            kind = type(self.show_return_value_in_logs).__name__
            raise TypeError(f"show_return_value_in_logs: expected True or False, got {kind}")

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Return the names of all of them."""
        return tuple(field.name for field in attrs.fields(cls))


class ItemHooks:
    """
    Calls what a user gave, in the item's context. What a callback raises is logged: no item fails for it.

    :param options: what was asked for.
    :param environment: renders a label that is a template.
    :param success: the task's ``on_success_callback``, called for each item.
    :param skipped: the task's ``on_skipped_callback``, called for each item.
    """

    def __init__(
        self,
        options: ItemOptions,
        environment: Any,
        *,
        success: Sequence[Callback] = (),
        skipped: Sequence[Callback] = (),
    ) -> None:
        self._options = options
        label = options.item_label
        self._template = environment.from_string(label) if isinstance(label, str) else None
        self._success = tuple(success)
        self._skipped = tuple(skipped)
        self.acts_on_return = options.xcom_layout == "indexed" or options.show_return_value_in_logs
        self._contexts: dict[int, Mapping[str, Any]] = {}

    def label(self, context: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
        """Return the item's label, and tag its log lines with it."""
        if self._options.item_label is None:
            return None
        if self._template is not None:
            label = str(self._template.render({**context, **arguments}))
        else:
            assert callable(self._options.item_label)
            label = str(self._options.item_label(arguments))
        structlog.contextvars.bind_contextvars(item_label=label)
        return label

    def began(self, index: int, context: Mapping[str, Any]) -> None:
        """Remember the context in which an attempt at an item runs."""
        self._contexts[index] = context

    def ended(self, index: int) -> Mapping[str, Any] | None:
        """Return the context of the last attempt at an item that has ended, and forget it."""
        return self._contexts.pop(index, None)

    def returned(self, context: Mapping[str, Any], result: Any) -> None:
        """Do what is due as soon as an item has returned. Blocks: use a thread."""
        if self._options.xcom_layout == "indexed":
            context["ti"].push_result(result)
        if self._options.show_return_value_in_logs:
            log.info("Item returned", value=repr(result)[:LOGGED_CHARACTERS])

    def settled(self, status: str, context: Mapping[str, Any]) -> None:
        """Call the callbacks of an item that was not in vain. Blocks: use a thread."""
        if status == "success":
            _call_all("on_success_callback", self._success, context)
        else:
            _call_all("on_skipped_callback", self._skipped, context)

    def awaits(self, status: str) -> bool:
        """Tell whether there are callbacks for items with that status."""
        return bool(self._success if status == "success" else self._skipped)

    @property
    def awaits_failures(self) -> bool:
        """Whether somebody wants to know of failed items."""
        return self._options.on_item_failed is not None

    def failed(self, context: Mapping[str, Any]) -> None:
        """Do what is due when an item has failed for good. Blocks: use a thread."""
        if self._options.on_item_failed is not None:
            _call_all("on_item_failed", (self._options.on_item_failed,), context)

    def around(self, context: Mapping[str, Any], label: str | None, call: Callable[[], Any]) -> Any:
        """Call something that blocks, and do what is due."""
        try:
            result = call()
        except AirflowSkipException:
            raise
        except Exception as error:
            _note(error, label)
            raise
        if self.acts_on_return:
            self.returned(context, result)
        return result

    async def around_async(
        self, item: Item, context: Mapping[str, Any], label: str | None, pending: Awaitable[Any]
    ) -> Any:
        """Await something, and do what is due in one of the iteration's threads."""
        try:
            result = await pending
        except AirflowSkipException:
            raise
        except Exception as error:
            _note(error, label)
            raise
        if self.acts_on_return:
            await item.in_thread(self.returned, context, result)
        return result


def _note(error: Exception, label: str | None) -> None:
    if label is not None:
        error.add_note(f"item_label: {label}")


def _call_all(name: str, callbacks: Sequence[Callback], context: Mapping[str, Any]) -> None:
    for callback in callbacks:
        try:
            callback(context)
        except Exception:
            log.exception("Callback failed", kind=name)
