"""The routers that the router benchmark compares: how each is started before four replicas on one processor.

haproxy and nginx are the system's, where they are installed; the others are looked for under $PEERS_DIR, a virtual environment each
(venv-vllm-router, venv-smg, venv-sglang-router)."""
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = "ember-router cache_aware"

HAPROXY = """global
 nbthread 1
 maxconn 4096
defaults
 mode http
 timeout connect 2s
 timeout client 300s
 timeout server 300s
 option http-keep-alive
 option http-no-delay
 option redispatch
 retries 2
 retry-on conn-failure empty-response
frontend f
 bind 127.0.0.1:{port}
 default_backend b
backend b
 balance roundrobin
 http-reuse always
{servers}
"""
NGINX = """worker_processes 1; daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
 access_log off; client_max_body_size 64m; client_body_buffer_size 1m; keepalive_requests 1000000;
 client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
 upstream u {{ {servers} keepalive 256; keepalive_requests 1000000; }}
 server {{ listen 127.0.0.1:{port}; location / {{
  proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off; proxy_request_buffering on;
  proxy_next_upstream error timeout non_idempotent; proxy_read_timeout 300s; }} }}
}}
"""


def _python_router(name, *module):
    """The command of a router of PyPI, or None where it isn't installed."""
    venv = pathlib.Path(os.environ.get("PEERS_DIR", "/nonexistent")) / f"venv-{name}"
    if not (venv / "bin").is_dir():
        return None
    return [str(venv / "bin" / module[0]), *module[1:]]


def rust_router(name, policy, warnings, *module):
    def command(port, ports, folder):
        start = _python_router(name, *module)
        return start and [*start, "--host", "127.0.0.1", "--port", port, "--prometheus-port", port + 10000, "--policy", policy,
                          "--worker-startup-check-interval", 1, "--log-level", warnings, "--worker-urls",
                          *(f"http://127.0.0.1:{p}" for p in ports)]
    return command


def ours(port, replicas):
    """The command of ours before replicas that are told by their fields (`http=HOST:PORT,...`)."""
    program = ROOT / "build/release/bin/ember-router"
    return [program, f"--listen=127.0.0.1:{port}", "--grpc=off", "--log-level=warn",
            *(f"--replica=r{i},{fields}" for i, fields in enumerate(replicas)), *os.environ.get("EMBER_ROUTER_FLAGS", "").split()]


def _ours(port, ports, folder):
    return ours(port, [f"http=127.0.0.1:{p}" for p in ports])


def _haproxy(port, ports, folder):
    config = folder / "haproxy.cfg"
    config.write_text(HAPROXY.format(port=port, servers="\n".join(f" server s{p} 127.0.0.1:{p} check inter 1s" for p in ports)))
    return shutil.which("haproxy") and ["haproxy", "-f", config]


def _nginx(port, ports, folder):
    config = folder / "nginx.conf"
    servers = " ".join(f"server 127.0.0.1:{p} max_fails=1 fail_timeout=2s;" for p in ports)
    config.write_text(NGINX.format(folder=folder, port=port, servers=servers))
    return shutil.which("nginx") and ["nginx", "-c", config]


# name: (listening port, replicas' ports, an empty folder) -> command, or None where it can't be had.
ROUTERS = {
    OURS: _ours,
    "haproxy roundrobin": _haproxy,
    "nginx round_robin": _nginx,
    "vllm-router round_robin": rust_router("vllm-router", "round_robin", "warning", "vllm-router"),
    "vllm-router cache_aware": rust_router("vllm-router", "cache_aware", "warning", "vllm-router"),
    "smg cache_aware": rust_router("smg", "cache_aware", "warn", "smg", "launch"),
    "sglang-router cache_aware": rust_router("sglang-router", "cache_aware", "warn", "python", "-m", "sglang_router.launch_router"),
}


class Running:
    """One router that answers; `pids` are its processes."""

    def __init__(self, command, url, folder, prefix):
        self.url = url
        with open(folder / "log", "wb") as log:
            self._process = subprocess.Popen([*prefix, *map(str, command)], stdout=log, stderr=log)
        self.pids = [self._process.pid]
        try:
            self._await_answer(folder)
        except Exception:
            self.stop()
            raise

    def _await_answer(self, folder):
        body = b'{"model":"fake","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'
        request = urllib.request.Request(self.url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(request, timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError((folder / "log").read_text(errors="replace").strip()[-300:] or "does not answer")

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
