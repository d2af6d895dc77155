# SPDX-License-Identifier: Apache-2.0
"""Streams as values of XComs."""
