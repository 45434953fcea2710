"""A hook of the documentation's build: pages and pictures of experiments and field appear on the site, without copies in docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for picture in sorted(HERE.glob("*/results/*.svg")):
        files.append(File.generated(config, f"reproduction/{picture.relative_to(HERE).as_posix()}", abs_src_path=str(picture)))
    field = HERE.parent / "benchmarks" / "field" / "field.svg"
    files.append(File.generated(config, field.name, abs_src_path=str(field)))
    for page in sorted(p.with_name("README.md") for p in HERE.glob("*/page.py")):
        folder = page.parent.name
        text = page.read_text().replace("](results/", f"]({folder}/results/")
        files.append(File.generated(config, f"reproduction/{folder}.md", content=text))
    return files
