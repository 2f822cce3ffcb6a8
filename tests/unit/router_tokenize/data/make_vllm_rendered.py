#!/usr/bin/env python3
"""Writes vllm_rendered.json: requests of each API, and the prompts that vLLM's own code makes of them; null where it refuses.
Needs vLLM 0.32; run by hand, with a model's folder for its config.json, when a template or a request here changes."""
import copy
import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ["VLLM_LOGGING_LEVEL"] = "CRITICAL"
from transformers import AutoTokenizer
from vllm.config import ModelConfig
from vllm.entrypoints.anthropic.protocol import AnthropicEffort, AnthropicMessagesRequest
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages, get_args
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.entrypoints.openai.responses.utils import construct_input_messages, construct_tool_dicts
from vllm.renderers.chat_utils import parse_chat_messages
from vllm.renderers.hf import resolve_chat_template_content_format, safe_apply_chat_template

HERE = pathlib.Path(__file__).parent


class Model:
    def __init__(self, name, folder):
        self.template = (HERE / f"{name}.jinja").read_text()
        (folder / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "chat_template": self.template}))
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self.config = ModelConfig(model=str(folder), tokenizer=str(folder))

    def render(self, request, messages, tools):
        params = request.build_chat_params(None, "auto").with_defaults({"tools": tools, "tokenize": False})
        kwargs = params.get_apply_chat_template_kwargs() | {"tokenize": False}
        form = resolve_chat_template_content_format(
            chat_template=None, tools=kwargs.get("tools"), given_format="auto", tokenizer=self.tokenizer, model_config=self.config)
        conversation, _, _ = parse_chat_messages(messages, self.config, content_format=form)
        return safe_apply_chat_template(self.config, self.tokenizer, conversation, **kwargs)

    def chat(self, request):
        tools = None if request.tools is None else [tool.model_dump() for tool in request.tools]
        return self.render(request, request.messages, tools)

    def disabled_effort(self):
        """As AnthropicServingMessages._probe_disabled_thinking_effort."""
        def probe(effort):
            try:
                return self.chat(ChatCompletionRequest(messages=[{"role": "user", "content": "Hi"}], reasoning_effort=effort))
            except Exception:
                return None
        none = probe("none")
        return "low" if none is None or none in map(probe, get_args(AnthropicEffort)) else "none"

    def prompt(self, api, body):
        body = {"model": "m", **copy.deepcopy(body)}
        if api == "chat":
            return self.chat(ChatCompletionRequest(**body))
        if api == "messages":
            return self.chat(AnthropicServingMessages.to_chat_completion_request(
                AnthropicMessagesRequest(max_tokens=4000, **body),
                merge_inline_system=AnthropicServingMessages._detect_merge_inline_system(self.template),
                disabled_thinking_effort=self.disabled_effort()))
        request = ResponsesRequest(**body)
        messages = construct_input_messages(request_instructions=request.instructions, request_input=request.input)
        return self.render(request, messages, construct_tool_dicts(request.tools, request.tool_choice))


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def text(content, kind="text"):
    return {"type": kind, "text": content}


SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
OTHER = {"type": "function", "function": {"name": "other"}}
DOCUMENTS = [{"title": "t", "text": "of it"}]
CHATS = [
    {"messages": [user([text("a"), text(""), text("b"), text("")])]},
    {"messages": [{"role": "system", "content": [text(""), text("s")]}, user([text("")]), assistant([text("x"), text("")]), user("z")]},
    {"messages": [user("q"), assistant([{"type": "refusal", "refusal": ""}, text("no"), {"type": "thinking", "thinking": ""}]), user("z")]},
    {"messages": [user("q"), assistant(None, tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]),
                  {"role": "tool", "tool_call_id": "c", "content": [text("r"), text(""), text("s")]}]},
    {"messages": [user("q")], "chat_template_kwargs": {"documents": DOCUMENTS}},
    {"messages": [user("q")], "documents": [{"text": "x"}], "chat_template_kwargs": {"documents": DOCUMENTS}},
    {"messages": [user("q")], "documents": None, "chat_template_kwargs": {"documents": DOCUMENTS}},
    {"messages": [user("q")], "chat_template_kwargs": {"tools": [OTHER]}},
    {"messages": [user("q")], "tools": [TOOL], "chat_template_kwargs": {"tools": [OTHER]}},
    {"messages": [user("q")], "tools": [TOOL], "chat_template_kwargs": {"tools": None, "documents": None}},
    {"messages": [user("q")], "tools": [TOOL], "chat_template_kwargs": {"tools": []}},
    {"messages": [user("q")], "chat_template_kwargs": {"reasoning_effort": "auto", "enable_thinking": None}},
    {"messages": [user("q")], "reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": None}},
]


def call(arguments='{"b": "x"}', **more):
    return {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments, **more}


def output(content, kind="function_call_output"):
    return {"type": kind, "call_id": "c1", "output": content}


def said(content, **more):
    return {"type": "message", "role": "assistant", "content": content, **more}


def thought(content=None, summary=None, **more):
    return {"type": "reasoning", "summary": [text(s, "summary_text") for s in summary or []],
            **({} if content is None else {"content": [text(c, "reasoning_text") for c in content]}), **more}


OUT = "output_text"
FUNCTION = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
CUSTOM = {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls \"é\"\n"}
INPUTS = [
    [user("q"), said([text("let me see", OUT)]), call(), output("r"), user("more")],
    [user("q"), assistant("let me see"), call(), call("{}"), output("r"), output("s"), said("done"), user("more")],
    [user("q"), call(), said([text("after the call", OUT)]), output("r")],
    [user("q"), call(), output("r"), call("{}"), output("s")],
    [user("q"), thought(["hm"]), said([text("ok", OUT)]), user("z")],
    [user("q"), thought([], ["in short", "more"]), said("ok"), user("z")],
    [user("q"), thought(["hm", "ha"], ["in short"]), call(), output("r"), thought(["so"]), said("done"), user("z")],
    [user("q"), said("ok"), thought(["late"]), thought(["later"]), call(), output("r")],
    [user("q"), thought(), said("ok"), user("z")],
    [user("q"), thought(["hm"], encrypted_content="x"), user("z")],
    [thought(["first"]), user("q")],
    [user("q"), said([text("one", OUT), text("two", OUT)]), said("three"), user("z")],
    [user("q"), assistant([text("one", "input_text"), text("two", "input_text")]), user("z")],
    [user("q"), said("", id="m"), call(), output("")],
    [user("q"), said([text("", OUT)]), call(), output([text("a", "input_text"), text("", "input_text"), text("b", "input_text")])],
    [user([text("a", "input_text"), text("", "input_text")]), {"role": "developer", "content": "d"}, user("z")],
    [user("q"), CUSTOM, output("r", "custom_tool_call_output"), user("z")],
    [user("q"), said("so"), CUSTOM, call(namespace="ns"), output("r", "custom_tool_call_output"), output("s")],
    [user("q"), said([text("The answer is ", OUT)], status="incomplete", id="m")],
    [user("q"), assistant("The answer", status="in_progress", type="message")],
    [user("q"), thought(["hm"]), said([text("The answer", OUT)], status="in_progress", id="m")],
    [user("q"), said([text("The answer", OUT)], status="incomplete", id="m"), user("z")],
    [user("q"), said([text("The answer", OUT)], status="completed", id="m")],
    [user("q"), call(status="incomplete")],
    [user("q"), {"type": "item_reference", "id": "x"}],
]
RESPONSES = [{"input": items, "tools": [FUNCTION]} for items in INPUTS] + [
    {"input": "q", "tools": [{"type": "web_search_preview"}, FUNCTION, {"type": "mcp", "server_label": "s", "server_url": "u"}]},
    {"input": "q", "tools": [{"type": "web_search_preview"}]},
    {"input": "q", "tools": []},
    {"input": "q", "tools": [{"type": "custom", "name": "sh", "description": "runs"}, {"type": "custom", "name": "bare"}, {**FUNCTION, "defer_loading": True}]},
    {"input": "q", "tools": [{"type": "namespace", "name": "ns", "description": "x", "tools": [FUNCTION, {"type": "custom", "name": "c"}]}]},
    {"input": "q", "instructions": "i", "reasoning": {"effort": "none"}},
    {"input": "q", "reasoning": {"summary": "auto"}, "reasoning_effort": "low", "add_generation_prompt": False},
]
CLAUDE = {"name": "f", "description": "d", "input_schema": SCHEMA}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {"b": "é", "n": 1.0}}


def result(**more):
    return {"type": "tool_result", "tool_use_id": "t", **more}


MESSAGES = [
    {"messages": [user([text(""), text("a"), text("b"), text("")])]},
    {"messages": [user("q"), assistant([text(""), USE]), user([result(content=[text("r"), text(""), text("s")]), text("and")])], "tools": [CLAUDE]},
    {"system": [text(""), text("s"), text("t")], "messages": [user([text("")]), assistant([]), user("q")]},
    {"messages": [user("q"), assistant([{"type": "thinking", "thinking": "hm", "signature": "s"}, text("ok")]), user([result()]), user("z")]},
    {"messages": [user("q")], "thinking": {"type": "disabled"}},
    {"messages": [user("q")], "thinking": {"type": "disabled"}, "chat_template_kwargs": {"enable_thinking": True}},
    {"messages": [user("q")], "thinking": {"type": "enabled", "budget_tokens": 2000}},
    {"messages": [user("q")], "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
    {"messages": [user("q")], "thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
    {"messages": [user("q")], "thinking": None, "output_config": None, "reasoning_effort": "high"},
    {"messages": [user("q")], "tools": [{"name": "bare", "input_schema": {"properties": {}}}, {**CLAUDE, "strict": True}]},
    {"messages": [user("q"), {"role": "system", "content": "late"}, user("z")], "system": "early "},
]

cases = []
for template in ("telling", "thinking", "parts", "trimming"):
    # A folder each: vLLM remembers templates by the folder's name.
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(pathlib.Path(sys.argv[1]) / "config.json", folder)
        shutil.copy(HERE / "byte_level.json", folder / "tokenizer.json")
        model = Model(template, folder)
        for api, bodies in (("chat", CHATS), ("responses", RESPONSES), ("messages", MESSAGES)):
            for body in bodies:
                try:
                    prompt = model.prompt(api, body)
                except Exception as why:
                    prompt = None
                    print(template, api, json.dumps(body)[:160], "refused:", str(why).splitlines()[0][:120], file=sys.stderr)
                cases.append({"template": template, "api": api, "request": body, "prompt": prompt})
(HERE / "vllm_rendered.json").write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n")
print(len(cases), "cases,", sum(case["prompt"] is None for case in cases), "refused")
