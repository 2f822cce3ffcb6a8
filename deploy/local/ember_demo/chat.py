"""Sends chat turns as a client would, streaming, and measures them."""

import dataclasses
import http.client
import itertools
import json
import os
import time
import urllib.request

from . import commands
from .process import DemoError

READING_SECONDS = 0.3
PUSH_SECONDS = 3.0


@dataclasses.dataclass
class Turn:
    """One request and what came of it. Times in milliseconds; tokens as the engine itself counted
    them.
    """

    conversation: str
    turn: int
    label: str  # which way or mode this request belongs to
    store: bool  # False: the agent was told to leave the store out of this request
    ok: bool = False
    error: str = ""
    replica: str = ""
    route: str = ""  # local | remote | recompute, as the agent reported it
    ttft_ms: float = 0.0  # request sent -> first piece of the answer
    total_ms: float = 0.0
    reused: int = 0  # prompt tokens found in the engine's cache (local, or restored from the store)
    computed: int = 0  # prompt tokens that the engine prefilled
    answer: str = ""
    request_id: str = ""
    work: dict = dataclasses.field(
        default_factory=dict
    )  # the agent's own times, see commands.WORK_FIELDS

    @property
    def prompt(self):
        return self.reused + self.computed


class ChatClient:
    def __init__(self, cluster, timeout_seconds=180):
        self._cluster, self._timeout = cluster, timeout_seconds
        self._ids = itertools.count(1)
        self.turns = []  # every turn that was asked, failed ones too

    def ask(
        self,
        conversation,
        turn,
        label,
        messages,
        *,
        max_tokens,
        store=True,
        policy=None,
        pin=None,
        sticky=True,
    ):
        """policy: route by this policy. pin: force this replica. sticky=False: the seed's
        '?sticky=0', random.
        """
        record = Turn(
            conversation, turn, label, store, request_id=f"demo-{os.getpid()}-{next(self._ids)}"
        )
        self.turns.append(record)
        headers = {
            "Content-Type": "application/json",
            commands.REQUEST_ID: record.request_id,
            commands.CONVERSATION: conversation,
        }
        if not store:
            headers[commands.STORE] = "off"
        if policy:
            headers[commands.POLICY] = policy
        if pin:
            headers[commands.PIN] = pin
        path = commands.CHAT_PATH + ("" if sticky else "?sticky=0")
        body = {
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            self._send(record, path, json.dumps(body).encode(), headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            record.error = record.error or f"{type(error).__name__}: {error}"
        record.work = self._agent_report(record)
        return record

    def wait_usable(self, replica, seconds=60):
        """Asks for one word until the router sends it to this replica and it answers. These probes
        are not counted.
        """
        counted, deadline = len(self.turns), time.monotonic() + seconds
        while True:
            probe = self.ask(
                "probe",
                1,
                "probe",
                [{"role": "user", "content": "Say yes."}],
                max_tokens=2,
                store=False,
                pin=replica,
            )
            del self.turns[counted:]
            if probe.ok and probe.replica == replica:
                return
            if time.monotonic() > deadline:
                raise DemoError(
                    f"the router sends nothing to {replica} after {seconds} s: "
                    f"{probe.error or probe.replica}"
                )
            time.sleep(0.1)

    def _send(self, record, path, body, headers):
        connection = http.client.HTTPConnection(
            commands.HOST, self._cluster.router_port, timeout=self._timeout
        )
        try:
            connection.connect()
            start = time.perf_counter()
            connection.request("POST", path, body, headers)
            reply = connection.getresponse()
            record.replica = reply.headers.get(commands.REPLICA, "")
            record.route = reply.headers.get(commands.ROUTE, "")
            if reply.status != 200:
                record.error = f"HTTP {reply.status}: {reply.read(300).decode(errors='replace')}"
                return
            self._read_stream(record, reply, start)
        finally:
            connection.close()

    def _read_stream(self, record, reply, start):
        finished = False
        for line in reply:
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                finished = True
                break
            event = json.loads(data)
            if "error" in event:
                record.error = f"error in the stream: {event['error']}"
                return
            for choice in event.get("choices", []):
                text = choice.get("delta", {}).get("content")
                if text:
                    record.ttft_ms = record.ttft_ms or 1e3 * (time.perf_counter() - start)
                    record.answer += text
            self._read_counts(record, event)
        record.total_ms = 1e3 * (time.perf_counter() - start)
        record.ok = finished and record.ttft_ms > 0
        record.error = "" if record.ok else "the stream ended early"

    @staticmethod
    def _read_counts(record, event):
        timings, usage = event.get("timings"), event.get("usage")
        if timings and "prompt_n" in timings:
            record.reused, record.computed = timings.get("cache_n", 0), timings["prompt_n"]
        elif usage:
            record.reused = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            record.computed = usage["prompt_tokens"] - record.reused

    def settle(self, turn):
        """The pause of a person who reads the answer; meanwhile the agent pushes what is new to the
        store. Waits a little longer where the push takes longer, to tell it from a lost one.
        """
        time.sleep(READING_SECONDS)
        deadline = time.monotonic() + PUSH_SECONDS
        while turn.ok and turn.store and time.monotonic() < deadline:
            turn.work = self._agent_report(turn)
            if "push_ms" in turn.work or not turn.work:
                return
            time.sleep(0.05)

    def _agent_report(self, record):
        """What the agent did for this request; {} when it does not tell. Asked after the answer."""
        ports = self._cluster.agent_ports.get(record.replica)
        if not ports:
            return {}
        path = commands.agent_report_path(record.request_id)
        try:
            url = f"http://{commands.at(ports['listen'])}{path}"
            with urllib.request.urlopen(url, timeout=5) as reply:
                rows = json.load(reply)
        except (OSError, ValueError):
            return {}
        fields = commands.WORK_FIELDS.items()
        return (
            {ours: rows[0][theirs] for ours, theirs in fields if theirs in rows[0]} if rows else {}
        )
