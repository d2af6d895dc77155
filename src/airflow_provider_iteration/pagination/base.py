# SPDX-License-Identifier: Apache-2.0
"""What all paginators have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from airflow_provider_iteration.exceptions import PathError
from airflow_provider_iteration.pagination.paths import find, json_type, parent_is_missing, whereabouts
from airflow_provider_iteration.pagination.request import PageRequest, PageView
from airflow_provider_iteration.pagination.stops import AnyStop, check_stop

Location: TypeAlias = Literal["query", "body", "header"]


class Paginator(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """
    Base of the specs. They hold no state; :class:`~airflow_provider_iteration.pagination.PageState` does.

    For an API that none of them fits, write a subclass: a frozen struct with fields that are plain JSON, in
    an installed package or the plugins folder, because the triggerer imports it too::

        class NextInHeader(Paginator, frozen=True):
            name: str = "x-next-page"

            def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
                number = page.headers.get(self.name)
                return PageRequest(params={"page": number}) if number else None

    As a dict its type is its import path: ``{"type": "shop.paging.NextInHeader", "name": "x-next"}``.

    :param stop: ends the walk in good order, whatever the page says about a next one.
    """

    reads_body: ClassVar[bool] = True
    """Whether it reads the body of a page, which must then be JSON."""
    needs_stop: ClassVar[bool] = False
    """Whether it ends at an empty page, so that it needs to know the items, or a stop condition."""

    stop: AnyStop | None = None

    def __post_init__(self) -> None:
        if self.stop is not None:
            check_stop("stop", self.stop)

    @property
    def needs_json(self) -> bool:
        """Whether the body of a page must be JSON."""
        return self.reads_body or (self.stop is not None and self.stop.reads_body())

    @property
    def needs_items(self) -> bool:
        """Whether it goes on by the number of items in a page."""
        return False

    def first(self) -> PageRequest:
        """Return the first request; by default it is the operator's own."""
        return PageRequest()

    def check_first(self, page: PageView) -> None:
        """
        Refuse a first page that cannot have been meant, before a wrong path passes for the last page.

        :param page: the first page.
        :raises PathError: if the page has no place at all for what this spec reads.
        """

    def looked_for(self) -> tuple[str, ...]:
        """Return the paths in a page that decide whether there is a next one."""
        return ()

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        """
        Say what to ask for after a page.

        :param page: the page that came.
        :param asked: the request that it came for.
        :return: the next request, or None if this page is the last.
        :raises PathError: if what is at the path can be no link or token.
        """
        raise NotImplementedError


def check_items_known(paginator: Paginator, items_path: str | None) -> None:
    """
    Refuse a paginator that must know the items of a page where they are not known.

    :param paginator: a spec.
    :param items_path: where the items are in a page; None if each page is one element.
    :raises ValueError: if the spec, or its stop condition, counts items.
    """
    if items_path is not None:
        return
    name = type(paginator).__name__
    if paginator.stop is not None and paginator.stop.counts_items():
        raise ValueError(f"items_path: the stop condition of {name} counts items, so say where they are")
    if paginator.needs_items:
        raise ValueError(f"items_path: {name} goes on by the number of items, so say where they are")
    if paginator.needs_stop and paginator.stop is None:
        raise ValueError(
            f"items_path: {name} ends at a page without items, so say where they are, or give it a stop "
            "condition such as HasMore, TotalPages or MaxPages"
        )


def read_value(path: str, page: PageView, kinds: tuple[type, ...]) -> Any:
    """
    Return the link or token at a path, or None where it says that this is the last page.

    :raises PathError: if something else is there.
    """
    value = find(path, page.body)
    if value is None or value is False or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, kinds):
        wanted = "a link (a string)" if kinds == (str,) else "a token (a string or a number)"
        raise PathError(f"path {path!r} leads to {json_type(value)}, not to {wanted}")
    return value


def check_place(path: str, page: PageView) -> None:
    """
    Refuse a first page without even the object around a path.

    :raises PathError: if it is missing.
    """
    if parent_is_missing(path, page.body):
        raise PathError(
            f"page 1 has no place for path {path!r}: {whereabouts(path, page.body)}. Correct the path, or "
            "set optional=True if the API leaves it out when there is only one page"
        )


def with_parameter(request: PageRequest, location: Location, name: str, value: Any) -> PageRequest:
    """
    Put a parameter into a request.

    :param request: the request.
    :param location: where the parameter goes.
    :param name: its name; in a body, a path with dots such as ``variables.after``.
    :param value: its value.
    """
    if location == "query":
        return msgspec.structs.replace(request, params={**request.params, name: value})
    if location == "header":
        others = {key: kept for key, kept in request.headers.items() if key.lower() != name.lower()}
        return msgspec.structs.replace(request, headers={**others, name: str(value)})
    return msgspec.structs.replace(request, body=_with_field(request.body, name.split("."), value))


def parameter(request: PageRequest, location: Location, name: str) -> Any:
    """Return a parameter that :func:`with_parameter` put into a request; None if it is not there."""
    if location == "query":
        return request.params.get(name)
    if location == "header":
        return next((sent for key, sent in request.headers.items() if key.lower() == name.lower()), None)
    found: Any = request.body
    for step in name.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def check_name(argument_name: str, value: Any) -> None:
    """Refuse what is no name."""
    if not isinstance(value, str):
        raise TypeError(f"{argument_name}: expected a name (str), got {type(value).__name__}")
    if not value:
        raise ValueError(f"{argument_name}: expected a name, got an empty text")


def check_parameters(location: Location, **names: str | None) -> None:
    """
    Refuse parameters that cannot be sent together.

    :param location: where they are sent.
    :param names: argument → name of its parameter, or None for one that is not sent.
    """
    places: dict[str, list[str]] = {}
    for argument_name, name in names.items():
        if name is None:
            continue
        check_name(argument_name, name)
        steps = name.split(".") if location == "body" else [name.lower() if location == "header" else name]
        if not all(steps):
            raise ValueError(f"{argument_name}: expected names between the dots, got {name!r}")
        for other, taken in places.items():
            shared = min(len(steps), len(taken))
            if steps[:shared] == taken[:shared]:
                raise ValueError(f"{argument_name}: {name!r} is where {other} is sent")
        places[argument_name] = steps


def check_flag(argument_name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise TypeError(f"{argument_name}: expected True or False, got {type(value).__name__}")


def check_choice(argument_name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise ValueError(f"{argument_name}: expected one of {', '.join(map(repr, choices))}, got {value!r}")


def check_whole(argument_name: str, value: Any, least: int) -> None:
    """Refuse what is no whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument_name}: expected a whole number, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{argument_name}: expected at least {least}, got {value}")


def _with_field(body: dict[str, Any], steps: list[str], value: Any) -> dict[str, Any]:
    step, *rest = steps
    if not rest:
        return {**body, step: value}
    below = body.get(step)
    return {**body, step: _with_field(below if isinstance(below, dict) else {}, rest, value)}
