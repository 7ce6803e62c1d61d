"""Debian's Chromium, driven by Selenium: what a person sees and does.

The one without a window, which lays out, draws and runs pages as the other does, and takes two
thirds of the processor's time.
"""

import shutil
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import pytest
from selenium import webdriver
from selenium.common.exceptions import JavascriptException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from support.http import eventually

WIDTHS = {"phone": (375, 812), "desktop": (1280, 900)}
# What is too wide is so in both schemes, and what is faint in both widths: the last two have all.
LOOKS = (("phone", "light"), ("desktop", "dark"), ("phone", "dark"), ("desktop", "light"))
KEYS = Keys
_SOUNDNESS = Path(__file__).with_name("soundness.js").read_text()

# What has the focus, as a person would say it.
_FOCUSED = (
    "(() => { const e = document.activeElement; return !e ? '' : e.getAttribute('aria-label')"
    " || e.labels?.[0]?.textContent.trim() || e.textContent.trim() || e.tagName; })()"
)
# Notes what each tabulator leads to, and takes those that come after the element is reached.
_TABS = f"""
const [name] = arguments, seen = [], listeners = new AbortController();
const is_there = () => seen.at(-1)?.startsWith(name) ?? false;
const listen = (event, act) => addEventListener(event, (e) => {{ if (e.key === "Tab") act(e); }},
  {{capture: true, signal: listeners.signal}});
listen("keydown", (event) => {{ if (is_there()) event.preventDefault(); }});
listen("keyup", () => {{ if (!is_there()) seen.push({_FOCUSED}); }});
window.tabs = () => {{ listeners.abort(); return seen; }};
"""
# The rules of axe-core that look at colours.
_COLOURS = ("color-contrast", "link-in-text-block")
# How often pages refresh where they do so fast, in milliseconds.
_FAST = 200

_HIDE = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"


class Browser:
    """A browser without a screen; it fails whoever asks for its complaints and gets some."""

    def __init__(self, *, takes_pictures: bool) -> None:
        self._takes_pictures = takes_pictures
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium-headless-shell") or ""
        for each in (
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            # What moves is drawn sixty times a second while it is looked at.
            "--force-prefers-reduced-motion",
        ):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        processes = psutil.Process(self.driver.service.process.pid).children(recursive=True)
        self.driver.quit()
        # Debian's program is a shell's script, of which the driver ends the shell alone.
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def look(self, width: str, scheme: str) -> None:
        """Give pages a width and the system's scheme of colours."""
        across, down = WIDTHS[width]
        run = self.driver.execute_cdp_cmd
        screen = {"width": across, "height": down, "deviceScaleFactor": 1, "mobile": False}
        run("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        run("Emulation.setEmulatedMedia", {"features": features})

    def open(self, url: str) -> None:
        self.driver.get(url)

    def leave(self) -> None:
        """Leave the page, what it complained of, and sessions at nodes.

        It would ask its node again and again, with the processor's time of other tests, and longer
        than there is the node. A cookie of one port of a host is sent to the others, too.
        """
        self.open("about:blank")
        self.driver.get_log("browser")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    def click(self, selector: str) -> None:
        eventually(lambda: self._did(selector, lambda found: found.click()))

    def enter(self, selector: str, *keys: str) -> None:
        """Press keys in a field."""
        eventually(lambda: self._did(selector, lambda found: found.send_keys(*keys)))

    def point(self, selector: str, right: int = 0) -> None:
        """Move the pointer to an element's middle, or so far to the right of it."""

        def move(found: WebElement) -> None:
            moves = webdriver.ActionChains(self.driver)
            moves.move_to_element_with_offset(found, right, 0).perform()

        eventually(lambda: self._did(selector, move))

    def _did(self, selector: str, act: Callable[[WebElement], None]) -> bool:
        """Do something with an element, unless the page put another in its place meanwhile."""
        try:
            act(self.driver.find_element(By.CSS_SELECTOR, selector))
        except StaleElementReferenceException:
            return False
        return True

    def each(self, selector: str, what: str) -> list[Any]:
        """Return what an expression says of each such element `e`, all at one moment."""
        script = f"return [...document.querySelectorAll(arguments[0])].map((e) => {what})"
        found: list[Any] = self.driver.execute_script(script, selector)
        return found

    def texts(self, selector: str) -> list[str]:
        return self.each(selector, "e.innerText")

    def count(self, selector: str) -> int:
        return len(self.each(selector, "1"))

    def shows(self, selector: str) -> bool:
        """Say whether a person can see that element, which there must be."""
        found = self.each(selector, "e.checkVisibility({visibilityProperty: true})")
        assert found, f"the page has no {selector}"
        return any(found)

    def sees(self, text: str) -> bool:
        return text in self.text("body")

    def text(self, selector: str) -> str:
        """Return the text of an element, or nothing: between two pages there is none."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.driver.execute_script(script, selector))

    def wait(self, text: str) -> None:
        """Wait for a page with a text on it."""
        try:
            eventually(lambda: self.sees(text))
        except AssertionError:
            pytest.fail(f"no {text!r} on the page: {self.text('body')}")

    def press(self, *keys: str) -> None:
        """Press keys wherever the focus is."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str:
        return str(self.run(f"return {_FOCUSED}"))

    def tab_to(self, name: str, most: int = 80) -> None:
        """Go from element to element by the tabulator until one of that name has the focus."""
        seen: list[str] = []
        for _ in range(0, most, 10):
            self.driver.execute_script(_TABS, name)
            self.press(*[Keys.TAB] * 10)
            # A page learns of its scrolling in the next frame, if no other page comes meanwhile.
            with suppress(JavascriptException):
                seen += self.driver.execute_async_script(
                    "const done = arguments[0], seen = window.tabs();"
                    "requestAnimationFrame(() => requestAnimationFrame(() => done(seen)))"
                )
            if seen and seen[-1].startswith(name):
                return
        raise AssertionError(f"the tabulator does not lead to {name}, but to {seen}")

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def picture(self, file: Path) -> None:
        """Write a picture of the whole page, which only people look at."""
        if not self._takes_pictures:
            return
        run = self.driver.execute_cdp_cmd
        size = run("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = run("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        file.write_bytes(b64decode(shot["data"]))

    def looks(self) -> Iterator[str]:
        """Look in both widths and schemes, last on a desk in light; yield what a look is called."""
        for width, scheme in LOOKS if self._takes_pictures else LOOKS[2:]:
            self.look(width, scheme)
            yield f"{width}-{scheme}"

    def inspect(self, folder: Path, name: str) -> None:
        """Look at the page that is open in both widths and schemes, in which it must be sound.

        Only its styles depend on them, so that it is not opened again.
        """
        for look in self.looks():
            self.picture(folder / f"{name}-{look}.png")
            found = self.complaints()
            assert not found, f"{look}: {found}"

    @contextmanager
    def hastened(self) -> Iterator[None]:
        """Have the pages that are opened in the block refresh every 0.2 s, not every 5 s."""
        source = (
            "const wait = setTimeout;"
            "window.setTimeout = (what, time, ...more) =>"
            f" wait(what, time === 5000 ? {_FAST} : time, ...more);"
            "window.asked = 0;"
            "addEventListener('htmx:beforeRequest', () => { window.asked += 1; });"
        )
        with self._beginning(f"(() => {{{source}}})()"):
            yield

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Have the pages that are opened in the block believe that another tab is in front."""
        with self._beginning(_HIDE % "true"):
            yield

    @contextmanager
    def _beginning(self, source: str) -> Iterator[None]:
        """Have the pages that are opened in the block begin with a script."""
        run, named = self.driver.execute_cdp_cmd, "ScriptToEvaluateOnNewDocument"
        made = run(f"Page.add{named}", {"source": source})
        yield
        run(f"Page.remove{named}", made)

    def let_pass(self, times: int) -> None:
        """Wait for as long as a page that refreshes would have done it so often."""
        self.driver.execute_async_script(
            "const [times, done] = arguments; let left = times;"
            f"const next = () => {{ left -= 1; left ? setTimeout(next, {_FAST}) : done(); }};"
            "next();",
            times,
        )

    def hide(self, *, hidden: bool) -> None:
        """Have the page believe that another tab is in front of it, or not."""
        script = _HIDE % str(hidden).lower()
        self.run(f"{script} document.dispatchEvent(new Event('visibilitychange'));")

    def cut_off(self, *, offline: bool) -> None:
        """Take the network from the browser, or give it back."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        conditions = {
            "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1
        }  # fmt: skip
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    def findings(self, axe: str, *, contrast: bool = False) -> list[str]:
        """Return what axe-core, whose script is given, finds serious or critical.

        The contrast of texts and of links in them, most of what it computes for, is looked for
        alone or not at all.
        """
        script = (
            "const [colours, isContrast, done] = arguments;"
            "const others = axe._audit.rules.filter(({id, impact}) =>"
            " colours.includes(id) || !['serious', 'critical'].includes(impact));"
            "const rules = Object.fromEntries(others.map(({id}) => [id, {enabled: false}]));"
            "axe.run({resultTypes: ['violations'], preload: false,"
            " ...(isContrast ? {runOnly: colours} : {rules})}).then((found) =>"
            " done(found.violations"
            ".map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(' ')}`)),"
            " (error) => done([String(error)]))"
        )
        if not self.run("return 'axe' in window"):
            self.run(axe)
        found: list[str] = self.driver.execute_async_script(script, _COLOURS, contrast)
        return found

    def complaints(self) -> list[str]:
        """Return what is wrong with the page: errors on its console, what is unsound.

        A refusal that a test has asked for, a status of HTTP, is no error; nor is what the page
        of a test before still wanted of its node, which has stopped.
        """
        node = self.run("return location.origin")
        logged = [
            message
            for message in (entry["message"] for entry in self.driver.get_log("browser"))
            if "the server responded with a status of" not in message
            and not ("ERR_CONNECTION_REFUSED" in message and not message.startswith(node))
        ]
        return [*logged, *self.run(_SOUNDNESS)]
