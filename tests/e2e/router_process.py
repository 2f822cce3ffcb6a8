"""An ember-router over replicas that a test scripts, on a port of its own; without gRPC unless asked for."""

import json
import subprocess
import threading

from cluster import BIN, call, wait_for


class RouterProcess:
    def __init__(self, replicas, *flags, tls=False):
        if not any(flag.startswith("--drain-delay-ms") for flag in flags):
            flags += ("--drain-delay-ms=0",)
        if not any(flag.startswith("--grpc=") for flag in flags):
            flags += ("--grpc=off",)
        if not any(flag.startswith("--listen=") for flag in flags):
            flags += ("--listen=127.0.0.1:0",)
        names = [f"--replica=r{i},http={r.address}" for i, r in enumerate(replicas, 1)]
        self.process = subprocess.Popen([str(BIN / "ember-router"), *names, *flags],
                                        stderr=subprocess.PIPE, text=True)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("ready "):
                break
        else:
            self.process.wait()
            raise AssertionError("".join(self.said))
        self.at = dict(part.split("=", 1) for part in line.split()[1:])  # "http", "grpc", "admin", ...
        self.port = int(self.at["http"].rsplit(":", 1)[1])
        # A full pipe would stop it.
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr))
        self.reader.start()
        if tls:  # it is asked otherwise than below
            return
        wait_for("usable replicas", lambda: json.loads(call(self.port, "GET", "/health").body)["usable_replicas"] >= len(replicas))

    def ask(self, body, n=1, path="/v1/chat/completions", **headers):
        """The n replies; x_name=value is the header x-name."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return [call(self.port, "POST", path, body, named) for _ in range(n)]

    def page(self, path):
        return call(self.port, "GET", path).body.decode()

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Lets it finish; its exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self):
        """Its exit code, once it has ended."""
        code = self.process.wait(timeout=30)
        self.reader.join()
        self.process.stderr.close()
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.stop()
