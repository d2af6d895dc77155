# SPDX-License-Identifier: Apache-2.0
"""
Real parts for tests, the demo and the benchmarks: an Airflow deployment and a paged API.

They are not part of the installed package.
"""
