# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import tempfile

# Reading the docstrings imports Airflow, which writes its configuration where this points.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-docs-"))

from airflow_provider_iteration import __version__

project = "airflow-provider-iteration"
author = "the contributors of airflow-provider-iteration"
project_copyright = author
version = release = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["build"]
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True}

html_theme = "furo"
html_title = f"{project} {version}"
html_show_sourcelink = False
