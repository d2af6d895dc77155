# SPDX-License-Identifier: Apache-2.0
"""Values of XComs that are kept in object storage, and what stands for them in the database."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from uuid import uuid4

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import MissingFile
from airflow_provider_iteration.storage import folder_names, place_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_iteration.streams.xcom_store import XComPlace

SUFFIX = ".xcom.json"
CLASS_NAME = f"{__name__}.OffloadedValue"


class OffloadedValue(NamedTuple):
    """
    Stands in the database for a value that is in object storage.

    It is stored as an object of a class that Airflow does not load, so that a process without the backend has
    an error for it, and never a path for the value.

    :param file: path of the file below ``[iteration] offload_path``.
    :param bytes: size of the file.
    """

    file: str
    bytes: int

    @classmethod
    def find(cls, stored: Any) -> Self | None:
        """
        Return what a stored value stands for; None if it is a value itself.

        :raises ValueError: if it was written by a newer version, or leads out of the storage path.
        """
        if (parts := _compat.serde_parts(stored)) is None or parts[0] != CLASS_NAME:
            return None
        _, version, content = parts
        if version > 1:
            raise ValueError(
                f"OffloadedValue: format {version} was written by a newer version of this package"
            )
        value = cls(**content)
        # Rows can be written through the API too: a path must be one that this class could have made.
        *folders, name = value.file.split("/")
        if not name.endswith(SUFFIX) or tuple(folders) != folder_names(place_of(folders)):
            raise ValueError("OffloadedValue: the file is not one of [iteration] offload_path")
        return value

    @classmethod
    def write(cls, text: str, place: XComPlace) -> Self:
        """Put a text into a new file of a task instance."""
        folder = storage_path().joinpath(*folder_names(place))
        folder.mkdir(parents=True, exist_ok=True)
        # Never over another file: what reads the row of before finds the value of before.
        name = f"{uuid4().hex}{SUFFIX}"
        (folder / name).write_text(text, encoding="ascii")
        return cls("/".join((*folder_names(place), name)), len(text))

    def read(self) -> Any:
        """
        Return what is in the file, as JSON.

        :raises MissingFile: if there is none.
        """
        try:
            return json.loads((storage_path() / self.file).read_text(encoding="ascii"))
        except FileNotFoundError:
            raise MissingFile(self.file, str(place_of(self.file.split("/")))) from None

    def delete(self) -> None:
        """Remove the file, if it is there."""
        with suppress(FileNotFoundError):
            (storage_path() / self.file).unlink()

    def to_row(self) -> dict[str, Any]:
        """Return plain JSON."""
        return _compat.to_serde_parts(CLASS_NAME, 1, self._asdict())


def storage_path() -> ObjectStoragePath:
    """
    Return ``[iteration] offload_path``.

    :raises ValueError: if it is not set.
    """
    from airflow.sdk import ObjectStoragePath

    if not (path := _compat.config_text("offload_path", "")):
        raise ValueError("a value is to be in object storage, but [iteration] offload_path is not set")
    return ObjectStoragePath(path)


def offloaded(stored: Any, place: XComPlace) -> Any:
    """
    Return what is to be in the database for a value: itself, or what stands for it if it is large.

    :param stored: the value as the wrapped backend would store it.
    :param place: the task instance.
    """
    if (limit := _compat.config_int("offload_bytes")) <= 0:
        return stored
    try:
        text = json.dumps(stored, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return stored  # not JSON: nothing that Airflow could store either, unless it is small and odd
    return stored if len(text) <= limit else OffloadedValue.write(text, place).to_row()
