"""The gallery of attacks as pictures for the documentation: python tools/audit_pictures.py (needs Chromium)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from taskveil.report.gallery_page import write_gallery

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        write_gallery(Path(folder))
        browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM") or "/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 480})
        for path in sorted(Path(folder).glob("*.html")):
            page.goto(path.as_uri())
            page.wait_for_selector(".main-svg")
            page.locator("figure").screenshot(path=PICTURES / f"{path.stem}.png")
            print("wrote", PICTURES / f"{path.stem}.png")
        browser.close()


if __name__ == "__main__":
    main()
