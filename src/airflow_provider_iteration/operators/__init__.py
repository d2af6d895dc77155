# SPDX-License-Identifier: Apache-2.0
"""Operators whose triggers deliver many pages in one run."""
