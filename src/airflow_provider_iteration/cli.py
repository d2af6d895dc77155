# SPDX-License-Identifier: Apache-2.0
"""The commands ``airflow iteration …``. Airflow loads this module whenever any command is run."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from datetime import UTC, datetime, timedelta
from math import isfinite

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

MIN_AGE_HOURS = 24.0

GC_DESCRIPTION = (
    "Removes files below [iteration] offload_path and checkpoint_path to which nothing in the metadata "
    "database refers any more: Airflow tells nobody that a Dag run was deleted. Only files that this package "
    "has written are considered. Share neither path with another deployment, whose files are orphans here."
)


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not (hours >= 0 and isfinite(hours)):
        raise ArgumentTypeError(f"expected a number of hours from 0 up, got {text!r}")
    return hours


def get_iteration_cli_commands() -> list[CLICommand]:
    """Return the commands of this package."""
    gc_command = ActionCommand(
        name="gc",
        help="Remove files in object storage whose Dag run, task instance or XCom is gone",
        description=GC_DESCRIPTION,
        func=lazy_load_command(f"{__name__}.collect_garbage"),
        args=(
            Arg(("--dry-run",), help="Only print what would be removed", action="store_true"),
            Arg(
                ("--min-age",),
                help="Keep files that are younger than so many hours (default: %(default)s): what refers to "
                "a file is written after it",
                type=_hours,
                default=MIN_AGE_HOURS,
                metavar="HOURS",
            ),
        ),
    )
    return [
        GroupCommand(
            name="iteration", help="Look after what iterations and streams keep", subcommands=(gc_command,)
        )
    ]


def collect_garbage(args: Namespace) -> None:
    """Remove orphaned files, and print each."""
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_iteration import _compat
    from airflow_provider_iteration.garbage import KINDS, find_orphans, remove

    before = datetime.now(UTC) - timedelta(hours=args.min_age)
    done = "would remove" if args.dry_run else "removed"
    with _compat.metadata_session() as session:
        for kind in KINDS:
            if not (path := _compat.config_text(kind.option, "")):
                print(f"[iteration] {kind.option} is not set")
                continue
            count = size = 0
            for orphan in find_orphans(session, kind, ObjectStoragePath(path), before):
                if not args.dry_run:
                    remove(orphan)
                count, size = count + 1, size + orphan.bytes
                print(f"{done} {orphan.path}")
            print(f"[iteration] {kind.option}: {done} {count} files, {size} bytes")
