# SPDX-License-Identifier: Apache-2.0
"""Triggers that deliver many pages in one run."""
