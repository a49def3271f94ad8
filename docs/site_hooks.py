"""What mkdocs needs beside mkdocs.yml: pictures that a page takes from runs/reference are copied into the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REFERENCE = re.compile(r"(?P<up>(?:\.\./)+)runs/reference/figures/(?P<name>[\w.-]+\.(?:png|svg))")
PICTURES = "pictures"


def on_files(files: Files, config: Any) -> Files:
    """Add each picture of runs/reference that some page shows."""
    root = Path(config.config_file_path).parent
    shown = {found["name"] for page in files.documentation_pages() for found in REFERENCE.finditer(page.content_string)}
    for name in sorted(shown):
        picture = root / "runs" / "reference" / "figures" / name
        files.append(File.generated(config, f"{PICTURES}/{name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page names the picture by its place in the repository; in the site it is beside the pages."""
    up = "../" * page.file.src_uri.count("/")
    return REFERENCE.sub(lambda found: f"{up}{PICTURES}/{found['name']}", markdown)
