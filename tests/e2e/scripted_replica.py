"""A replica whose answers are the test's: streams or whole replies in the shape of vLLM's, with its token counts."""

import http.server
import json
import threading
import time


class ScriptedReplica:
    def __init__(self, cached_tokens=0, prompt_tokens=1000, first_token_s=0.02):
        self.cached_tokens, self.prompt_tokens, self.first_token_s = cached_tokens, prompt_tokens, first_token_s
        self.health = 200
        self.seen = []  # (path, headers) of each request that was no probe
        replica = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self._whole(replica.health if self.path == "/health" else 404, {})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                replica.seen.append((self.path, dict(self.headers)))
                time.sleep(replica.first_token_s)
                if body.get("stream"):
                    self._stream()
                else:
                    self._whole(200, {"choices": [{"message": {"content": "ok"}}], "usage": replica.usage()})

            def _whole(self, status, value):
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def _stream(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                events = [{"choices": [{"delta": {"content": f"t{i}"}}]} for i in range(3)]
                for event in [*events, {"choices": [], "usage": replica.usage()}]:
                    text = f"data: {json.dumps(event)}\n\n".encode()
                    self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
                self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # the router left

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def usage(self):
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": self.cached_tokens}}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
