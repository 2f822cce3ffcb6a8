"""A TCP tap: forwards connections to one port, and keeps what was said and when."""

import selectors
import socket
import threading
import time


class Conversation:
    def __init__(self):
        self.sent = b""  # by the client
        self.received = b""  # by the client
        self.first_received_at = None
        self.client_closed_at = None


class Tap:
    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.conversations = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client):
        talk = Conversation()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self.conversations.append(talk)
        selector = selectors.DefaultSelector()
        selector.register(client, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(1 << 16)
                    now = time.monotonic()
                    if key.fileobj is client:
                        if not data:
                            talk.client_closed_at = now
                            return
                        talk.sent += data
                        server.sendall(data)
                    else:
                        if not data:
                            return
                        talk.first_received_at = talk.first_received_at or now
                        talk.received += data
                        client.sendall(data)
        except OSError:
            talk.client_closed_at = talk.client_closed_at or time.monotonic()
        finally:
            client.close()
            server.close()


def dechunk(data):
    """The body of one chunked HTTP/1.1 reply."""
    _, _, rest = data.partition(b"\r\n\r\n")
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        n = int(size, 16)
        if n == 0:
            return body
        body, rest = body + rest[:n], rest[n + 2 :]
