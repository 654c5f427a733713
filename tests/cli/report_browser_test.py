"""The pages of tune-cli report, in a headless Chromium.

usage: report_browser_test.py TUNE_CLI REPORT_DATABASE
Exits 77 where Chromium, its driver or the module selenium is missing."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    LACKS = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
except ImportError:
    LACKS = ["selenium"]
if LACKS:
    print(f"skipped: no {' and no '.join(LACKS)}; scripts/deps --browser installs them")
    sys.exit(77)

TUNE_CLI, REPORT_DATABASE = "", ""
WORKLOADS, TRIALS = 60, 40
PATIENCE = 120  # seconds until something must have happened; no test measures time

# Pairs of words in one chart that overlap, and words that leave their chart.
LABEL_FAULTS = """
const faults = [];
for (const svg of document.querySelectorAll('svg')) {
  const outer = svg.getBoundingClientRect();
  const words = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, box] of words) {
    if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 ||
        box.bottom > outer.bottom + 1) faults.push(text + ' leaves its chart');
  }
  for (let i = 0; i < words.length; ++i) {
    for (let j = i + 1; j < words.length; ++j) {
      const a = words[i][1], b = words[j][1];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 0.5 && down > 0.5) faults.push(words[i][0] + ' overlaps ' + words[j][0]);
    }
  }
}
return faults;
"""

# Elements whose own text has less contrast with the page than WCAG asks for (4.5), or is smaller than
# nine pixels on the screen.
TEXT_FAULTS = """
function luminance(color) {
  const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const page = luminance(getComputedStyle(document.body).backgroundColor), faults = new Set();
for (const e of document.querySelectorAll('body, body *')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || ['TITLE', 'title', 'SCRIPT'].includes(e.tagName)) continue;
  const style = getComputedStyle(e), svg = e.closest('svg');
  const ink = luminance(svg ? style.fill : style.color);
  const contrast = (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
  if (contrast < 4.5) faults.add(e.tagName + '.' + e.getAttribute('class') + ' ' + contrast);
  const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  const size = parseFloat(style.fontSize) * scale;
  if (size < 9) faults.add(e.tagName + '.' + e.getAttribute('class') + ' ' + size + ' px');
}
return [...faults];
"""

SIDEWAYS = "return document.documentElement.scrollWidth - window.innerWidth;"


class Browser:
    """One Chromium for all cases."""

    def __init__(self, profile: str) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
                         f"--user-data-dir={profile}"):
            options.add_argument(argument)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")  # Chromium refuses root otherwise
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(service=service, options=options)

    def look(self, width: int, scheme: str) -> None:
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, url: str) -> None:
        self.console()
        self.driver.get(url)

    def ask(self, script: str):
        return self.driver.execute_script(script)

    def console(self) -> list[str]:
        """Messages since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


class Report(unittest.TestCase):
    browser: Browser
    folder: tempfile.TemporaryDirectory

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.folder.name)
        cls.environment = os.environ | {"TILEWRIGHT_CONFIG": "off"}
        cls.browser = Browser(str(cls.at / "profile"))
        subprocess.run([REPORT_DATABASE, cls.at / "many.db", str(WORKLOADS), str(TRIALS)], check=True)
        (cls.at / "bench.json").write_text(json.dumps(cls.bench()), encoding="utf-8")
        cls.tune_cli("report", "--db", "many.db", "-o", "many.html", "--bench", "bench.json",
                     "--quiet")
        cls.page = (cls.at / "many.html").as_uri()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.driver.quit()
        cls.folder.cleanup()

    @classmethod
    def tune_cli(cls, *arguments: str) -> str:
        return subprocess.run([TUNE_CLI, *arguments], check=True, text=True, cwd=cls.at,
                              env=cls.environment, stdout=subprocess.PIPE).stdout

    @classmethod
    def bench(cls) -> dict:
        """Baselines of each workload, some near the best kernel and near each other."""
        report = json.loads(cls.tune_cli("report", "--db", "many.db", "-o", "x.html", "--json"))
        peers = {"oneDNN": 1.1, "OpenBLAS": 1.12, "<b>a library of a very long name</b>": 1.13}
        rows = [{"spec": w["spec"], "threads": w["threads"], "seconds": w["best"]["seconds"],
                 "peers": {name: {"seconds": ratio * w["best"]["seconds"], "counts": True}
                           for name, ratio in peers.items()}} for w in report["results"]]
        return {"results": rows, "peers": {name: "1.0" for name in peers}}

    def test_words_do_not_collide_and_can_be_read(self) -> None:
        self.browser.open(self.page)
        self.assertEqual(len(self.browser.ask("return [...document.querySelectorAll('section')]"
                                              ".map(s => s.id)")), WORKLOADS)
        # An overview, and four charts per workload.
        self.assertEqual(self.browser.ask("return document.querySelectorAll('svg').length"),
                         1 + 4 * WORKLOADS)
        for width in (400, 700, 1400):
            for scheme in ("light", "dark"):
                with self.subTest(width=width, scheme=scheme):
                    self.browser.look(width, scheme)
                    self.assertEqual(self.browser.ask("return window.innerWidth"), width)
                    self.assertEqual(self.browser.ask(LABEL_FAULTS), [])
                    self.assertEqual(self.browser.ask(TEXT_FAULTS), [])
                    self.assertLessEqual(self.browser.ask(SIDEWAYS), 0)
        self.assertEqual(self.browser.console(), [])

    def test_the_looks_follow_the_scheme(self) -> None:
        self.browser.open(self.page)
        colors = []
        for scheme in ("light", "dark"):
            self.browser.look(1400, scheme)
            colors.append(self.browser.ask(
                "return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(colors, ["rgb(255, 255, 255)", "rgb(20, 24, 29)"])

    def test_faults_are_found(self) -> None:
        """The checks of the other cases see what they look for."""
        self.browser.open(self.page)
        self.browser.look(1400, "light")
        self.browser.ask("const t = document.querySelector('svg text.words');"
                         "t.parentNode.append(t.cloneNode(true));")
        self.assertIn("overlaps", " ".join(self.browser.ask(LABEL_FAULTS)))
        self.browser.ask("document.querySelector('svg text').setAttribute('x', -50);")
        self.assertIn("leaves", " ".join(self.browser.ask(LABEL_FAULTS)))
        self.browser.ask("document.body.style.color = '#dddddd'")
        self.assertNotEqual(self.browser.ask(TEXT_FAULTS), [])
        self.browser.ask("document.body.style.minWidth = '3000px'")
        self.assertGreater(self.browser.ask(SIDEWAYS), 0)
        self.browser.ask("console.error('here')")
        self.assertIn("here", " ".join(self.browser.console()))

    def test_texts_of_the_database_stay_texts(self) -> None:
        self.browser.open(self.page)
        self.assertEqual(self.browser.driver.title, "Tilewright: tuning report")
        self.assertEqual(self.browser.ask(
            "return document.querySelectorAll('img, script, iframe, b, [onerror]').length"), 0)
        text = self.browser.ask("return document.querySelector('#summary').innerText")
        self.assertIn("<img src=x onerror=", text)
        self.assertEqual(self.browser.console(), [])

    def test_the_parts_of_a_workload(self) -> None:
        self.browser.open(self.page)
        section = "document.querySelectorAll('section')[5]"
        words = self.browser.ask(f"return {section}.innerText")
        self.assertIn("The intervals do not overlap: the winner is faster by", words)
        self.assertIn("Rank correlation: 0.", words)
        knobs = self.browser.ask(f"return [...{section}.querySelectorAll('.knobs code')]"
                                 ".map(c => c.innerText)")
        self.assertEqual(knobs[0], "C.vi.rows")
        spent = self.browser.ask(f"return {section}.querySelector('.spent').innerText")
        for part in ("propose", "compile\t9.0 s\t45%", "check", "measure\t4.0 s\t20%", "other"):
            self.assertIn(part, spent)
        baselines = self.browser.ask(f"return {section}.querySelector('.baselines').innerText")
        self.assertRegex(baselines, r"oneDNN\t.*\t1.10x")
        # The best so far begins at the first candidate, and the far slower default is no part of it.
        line = self.browser.ask(f"return {section}.querySelector('.line.best').getAttribute('points')")
        first = self.browser.ask(f"const c = {section}.querySelector('circle.trial');"
                                 "return c.getAttribute('cx') + ',' + c.getAttribute('cy');")
        self.assertEqual(line.split()[0], first)

    def test_a_running_search_adds_points_to_the_open_page(self) -> None:
        self.browser.look(1400, "light")
        tune = [TUNE_CLI, "tune", "matmul:m=64,n=96,k=64", "--db", "live.db", "--threads", "1",
                "--quiet"]
        with self.served("live.db") as url:
            self.browser.open(url)
            self.until("nothing to show", lambda: "Nothing to show yet" in self.words())
            self.browser.ask("window.stays = true")
            with subprocess.Popen([*tune, "--trials", "100000"], cwd=self.at, env=self.environment,
                                  stdout=subprocess.DEVNULL) as search:
                self.until("first points", lambda: self.points() > 0)
                first = self.points()
                self.until("more points", lambda: self.points() > first)
                self.assertIn("A search is running.", self.words())
                self.assertIsNone(search.poll())
                search.send_signal(signal.SIGINT)
            self.until("the end", lambda: "A search is running." not in self.words())
            self.assertTrue(self.browser.ask("return window.stays"), "the page was loaded anew")
            self.assertEqual(self.browser.ask(LABEL_FAULTS), [])
            self.assertEqual(self.browser.console(), [])

    def words(self) -> str:
        return self.browser.ask("return document.body.innerText")

    def points(self) -> int:
        return self.browser.ask("return document.querySelectorAll('circle.trial').length")

    def until(self, name: str, holds) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end, f"waited for {name}: {self.words()[:2000]}")
            time.sleep(0.2)

    @contextlib.contextmanager
    def served(self, database: str):
        with subprocess.Popen([TUNE_CLI, "report", "--serve", "--port", "0", "--quiet", "--db",
                               database],
                              cwd=self.at, env=self.environment, text=True,
                              stdout=subprocess.PIPE) as server:
            try:
                yield server.stdout.readline().strip()
            finally:
                server.send_signal(signal.SIGINT)
                self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    TUNE_CLI, REPORT_DATABASE = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
