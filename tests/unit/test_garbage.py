# SPDX-License-Identifier: Apache-2.0
"""Which files are taken for orphans, and what the command does with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.cli.cli_config import ActionCommand, GroupCommand
from airflow.sdk import ObjectStoragePath
from sqlalchemy.orm import Session

from airflow_provider_iteration import _compat, cli
from airflow_provider_iteration.garbage import KINDS, FileKind, find_orphans
from airflow_provider_iteration.iteration.task_checkpoints import CheckpointFiles
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.offloading import OffloadedValue

OFFLOADED, CHECKPOINTS = KINDS
PLACES = [XComPlace("shop", "rows", "manual__1+00:00"), XComPlace("my.shop", "load.rows", ".2", 3)]
FOREVER = datetime(3000, 1, 1, tzinfo=UTC)
TABLES = """\
CREATE TABLE xcom (dag_id TEXT, run_id TEXT, task_id TEXT, map_index INTEGER, value JSON);
CREATE TABLE task_state_store (dag_id TEXT, run_id TEXT, task_id TEXT, map_index INTEGER, key TEXT)
"""


@pytest.fixture
def session() -> Iterator[Session]:
    """The part of the metadata database that is read."""
    with Session(sa.create_engine("sqlite://")) as memory:
        for table in TABLES.split(";"):
            memory.execute(sa.text(table))
        yield memory


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStoragePath:
    """Both storage paths: the same place, which must do no harm."""
    path = f"file://{tmp_path}"
    monkeypatch.setenv("AIRFLOW__ITERATION__OFFLOAD_PATH", path)
    monkeypatch.setenv("AIRFLOW__ITERATION__CHECKPOINT_PATH", path)
    return ObjectStoragePath(path)


def offload(place: XComPlace, session: Session | None = None) -> str:
    """Write a file, and what refers to it if there is a database."""
    value = OffloadedValue.write('"x"', place)
    if session is not None:
        insert(session, "xcom", place, value=json.dumps(value.to_row()))
    return value.file


def checkpoint(base: Any, place: XComPlace, session: Session | None = None) -> str:
    if session is not None:
        insert(session, "task_state_store", place, key="iteration_checkpoint_1_0000")
    return CheckpointFiles(str(base), place, "0" * 32).write(0, "{}")


def insert(session: Session, table: str, place: XComPlace, **columns: Any) -> None:
    values = {**place._asdict(), **columns}
    names = ", ".join(values)
    session.execute(sa.text(f"INSERT INTO {table} ({names}) VALUES (:{', :'.join(values)})"), values)


def orphans(session: Session, kind: FileKind, base: Any, before: datetime = FOREVER) -> set[str]:
    found = find_orphans(session, kind, base, before)
    return {orphan.path.relative_to(base).as_posix() for orphan in found}


@pytest.mark.parametrize("place", PLACES)
def test_value_without_its_row_is_an_orphan(session: Session, base: Any, place: XComPlace) -> None:
    """Others of the same task instance stay."""
    offload(place, session)
    gone = offload(place)
    checkpoint(base, place)
    assert orphans(session, OFFLOADED, base) == {gone}


@pytest.mark.parametrize("place", PLACES)
def test_checkpoint_without_any_row_is_an_orphan(session: Session, base: Any, place: XComPlace) -> None:
    """Those of task instances that have a checkpoint stay, of whichever try they are."""
    checkpoint(base, place, session)
    gone = checkpoint(base, place._replace(task_id="gone"))
    offload(place)
    insert(session, "task_state_store", place._replace(task_id="gone"), key="another")
    assert orphans(session, CHECKPOINTS, base) == {gone}


def test_young_files_stay(session: Session, base: Any) -> None:
    """What refers to them may be about to be written."""
    old, _ = offload(PLACES[0]), offload(PLACES[0])
    os.utime(base.joinpath(old).path, (1000, 1000))
    assert orphans(session, OFFLOADED, base, datetime(2020, 1, 1, tzinfo=UTC)) == {old}


@pytest.mark.parametrize("name", ["a.xcom.json", "a/b/c/d/e.xcom.json", "a/b/c/1/e.json", "a/b/c/1/2/3.txt"])
@pytest.mark.parametrize("kind", KINDS)
def test_foreign_files_stay(session: Session, base: Any, name: str, kind: FileKind) -> None:
    """Whatever else lies there."""
    file = base / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert orphans(session, kind, base) == set()


def test_storage_that_is_not_there_yet(session: Session, base: Any) -> None:
    """Nothing was ever stored: nothing to do."""
    assert orphans(session, OFFLOADED, base / "not yet") == set()


# The command.


def parse(*arguments: str) -> Namespace:
    (group,) = cli.get_iteration_cli_commands()
    assert isinstance(group, GroupCommand)
    (command,) = group.subcommands
    assert isinstance(command, ActionCommand)
    assert (group.name, command.name) == ("iteration", "gc")
    parser = ArgumentParser()
    for argument in command.args:
        argument.add_to_parser(parser)
    return parser.parse_args(arguments)


@pytest.fixture
def metadata(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The database that the command opens."""

    @contextmanager
    def opened() -> Iterator[Session]:
        yield session

    monkeypatch.setattr(_compat, "metadata_session", opened)
    return session


def test_defaults_are_safe() -> None:
    """A day of age."""
    assert vars(parse()) == {"dry_run": False, "min_age": 24.0}


@pytest.mark.parametrize("age", ["-1", "day", "nan", "inf"])
def test_wrong_age_is_refused(age: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the argument."""
    with pytest.raises(SystemExit):
        parse(f"--min-age={age}")
    assert "argument --min-age: expected a number of hours from 0 up" in capsys.readouterr().err


def test_dry_run_removes_nothing(metadata: Session, base: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what would be removed."""
    file = base / offload(PLACES[0])
    cli.collect_garbage(parse("--dry-run", "--min-age=0"))
    printed = capsys.readouterr().out
    assert f"would remove {file}\n" in printed
    assert "[iteration] offload_path: would remove 1 files, 3 bytes" in printed
    assert file.exists()


def test_orphans_of_both_kinds_are_removed(
    metadata: Session, base: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing else."""
    kept = [offload(PLACES[0], metadata), checkpoint(base, PLACES[0], metadata)]
    gone = [offload(PLACES[1]), checkpoint(base, PLACES[1])]
    cli.collect_garbage(parse("--min-age=0"))
    assert [(base / name).exists() for name in kept + gone] == [True, True, False, False]
    assert capsys.readouterr().out.count("removed 1 files") == 2


def test_paths_that_are_not_set_are_said_so(metadata: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to do is no error."""
    cli.collect_garbage(parse())
    expected = "[iteration] offload_path is not set\n[iteration] checkpoint_path is not set\n"
    assert capsys.readouterr().out == expected


def test_the_command_loads_little() -> None:
    """Every command of Airflow loads the module that defines this one."""
    code = f"import sys, {cli.__name__}; print('airflow_provider_iteration._compat' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == "False"
