"""Screenshots for docs/: five pages alone, and every page 1440 and 900 px wide, light and dark, side by side.

    python -m benchmarks.pictures [--into docs/images] [--only Tools]

Over made-up events (`misstep demo --bulk`) in a real Chromium. After changing a page, run this and look at the result.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from benchmarks.pages import FLAGS, WATCH, about, address, opened, running, still
from collector.commands.bulk import bulk
from dashboard import menu

EVENTS = 100_000  # of 30 days
RANGE = "-24h"
Scheme = Literal["light", "dark"]
LOOKS: tuple[tuple[int, Scheme], ...] = ((1440, "light"), (1440, "dark"), (900, "light"), (900, "dark"))
HIGHEST_PX = 3_000
# The pages that the README and docs/dashboard.md show: colours, highest height, and what their links have besides.
ALONE: Mapping[str, tuple[Scheme, int, dict[str, str]]] = {
    "overview": ("light", 1420, {"from": "-8d"}),  # which is worse than the 8 days before
    "compare": ("light", 960, {"from": "-30d", "service": "shop-coder", "refresh": "0"}),
    "group": ("light", 1210, {}),
    "session": ("light", 1100, {}),
    "tools": ("dark", 1400, {}),
}
ALONE_SCALE, COLOURS = 1120 / 1440, 128
SCALE, QUALITY = 0.36, 68
TALL = "(document.querySelector('[data-testid=stMainBlockContainer]') || document.body).scrollHeight + 20"


def main() -> None:
    """Writes one picture for each page."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--into", type=Path, default=Path("docs/images"))
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    pages = given.into / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"duckdb:///{folder}/pictures.duckdb"
        bulk(url, EVENTS, 0)
        with running(url, folder) as (asked, shown, _), sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            subjects = about(asked)
            for name, title in menu.TITLES.items():
                if given.only not in title:
                    continue
                taken = _taken(chromium, address(shown, name, RANGE, subjects))
                (pages / f"{name}.jpg").write_bytes(taken)
                print(f"{title}: {len(taken) >> 10} KiB", flush=True)
                if name in ALONE:
                    scheme, height, link = ALONE[name]
                    about_it = {**subjects.get(name, {}), "refresh": "10", **link}
                    taken = _alone(chromium, address(shown, name, RANGE, {**subjects, name: about_it}), scheme, height)
                    (given.into / f"{name}.png").write_bytes(taken)
                    print(f"{title} alone: {len(taken) >> 10} KiB", flush=True)
            chromium.close()


def _taken(chromium: Browser, url: str) -> bytes:
    """The page in all LOOKS, as one JPEG."""
    shots = [(round(width * SCALE), b64encode(_shot(chromium, url, width, scheme)).decode()) for width, scheme in LOOKS]
    wide = sum(width for width, _ in shots) + 8 * (len(shots) - 1)
    page = chromium.new_page(viewport={"width": wide, "height": 100})
    images = "".join(f'<img width="{width}" src="data:image/png;base64,{shot}">' for width, shot in shots)
    page.set_content(
        f'<body style="margin:0;background:#888"><div style="display:flex;gap:8px;align-items:start">{images}</div>'
    )
    taken = page.screenshot(type="jpeg", quality=QUALITY, full_page=True)
    page.close()
    return taken


def _alone(chromium: Browser, url: str, scheme: Scheme, height: int) -> bytes:
    """The page in one look, smaller and with few colours, as a PNG."""
    shot = Image.open(BytesIO(_shot(chromium, url, 1440, scheme, height)))
    size = round(shot.width * ALONE_SCALE), round(shot.height * ALONE_SCALE)
    out = BytesIO()
    small = shot.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    # Other methods lose the colours of small areas, or the light greys.
    few = small.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few.save(out, "PNG", optimize=True)
    return out.getvalue()


def _shot(chromium: Browser, url: str, width: int, scheme: Scheme, highest: int = HIGHEST_PX) -> bytes:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.add_init_script(WATCH)
    opened(page, url)
    page.set_viewport_size({"width": width, "height": min(page.evaluate(TALL), highest)})
    still(page)
    taken = page.screenshot()
    context.close()
    return taken


if __name__ == "__main__":
    main()
