"""A real Chromium, driven by the W3C WebDriver protocol through chromedriver. Python's standard library only.

`Browser.missing()` says what is not installed; everything a Browser started is gone when its close() returns."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the protocol names an element by
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Space": " "}


class Browser:
    @staticmethod
    def missing():
        return [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="ember-ui-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self._start([*FLAGS, f"--user-data-dir={self.profile}"])
        except BaseException:
            self.close()
            raise

    def _start(self, flags):
        port = None
        for line in self.driver.stdout:
            if "successfully on port" in line:
                port = int(line.rstrip(".\n").rsplit(" ", 1)[1])
                break
        self.root = f"http://127.0.0.1:{port}"
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": flags},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.root += f"/session/{answer['sessionId']}"

    def close(self):
        try:
            if "/session/" in getattr(self, "root", ""):
                self._ask("DELETE", "", None)
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)

    def _ask(self, method, path, body):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self._ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value that the body of a function returns in the page."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, css):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def count(self, css):
        return self.run("return document.querySelectorAll(arguments[0]).length", css)

    def wait(self, what, condition, timeout=30):
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}; the page says:\n{self.text('body')}")
            time.sleep(0.05)
        return value

    def click(self, css):
        element = self._ask("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]
        self._ask("POST", f"/element/{element}/click", {})

    def press(self, key):
        """A key, sent to what has the focus."""
        text = KEYS.get(key, key)
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": text}, {"type": "keyUp", "value": text}]}]})

    def resize(self, width, height):
        self._ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})
        self._ask("POST", "/window/rect", {"width": width, "height": height})

    def be_phone(self, width=390, height=844):
        """Until the next resize; the window itself can't be that narrow."""
        self._ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 2, "mobile": True}})

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._ask("GET", "/screenshot", None)))

    def complaints(self):
        """Errors and warnings of the page's console: scripts, refused resources, policy violations."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]
