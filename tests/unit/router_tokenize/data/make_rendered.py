#!/usr/bin/env python3
"""Writes rendered.json: requests, and the prompts that transformers' own Jinja environment makes of them.
Needs jinja2 and transformers; run by hand when a template or a request here changes."""
import copy
import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).parent
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather — of a place", "parameters": {
        "type": "object", "properties": {"place": {"type": "string", "enum": ["Köln", "東京"]}, "n": {"default": 1.0, "max": 1e16}},
        "required": ["place"]}}}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{\"place\": \"Köln\", \"n\": [1, 2.50, true, null]}"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "It's \"12 °C\" </b>\n"}
CHATS = [
    {"messages": [{"role": "user", "content": "  Hello?\n"}]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
    {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Weather?"}, CALL, RESULT], "tools": [TOOL]},
    {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nA"}, {"role": "user", "content": "R"}],
     "chat_template_kwargs": {"enable_thinking": False}},
    {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "The answer is "}],
     "add_generation_prompt": False, "continue_final_message": True},
]


def as_vllm(chat, parts):
    """The messages as vLLM gives them to a template."""
    chat = copy.deepcopy(chat)
    for message in chat["messages"]:
        content = message["content"]
        texts = [] if content is None else [content] if isinstance(content, str) else [p["text"] for p in content]
        wrap = parts and message["role"] != "tool"
        message["content"] = [{"type": "text", "text": t} for t in texts] if wrap else "\n".join(texts)
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return chat


cases = []
for name in ("trimming", "chatml", "thinking", "parts", "changing"):
    template = (HERE / f"{name}.jinja").read_text()
    for chat in CHATS:
        given = as_vllm(chat, name == "parts")
        try:
            prompts, _ = render_jinja_template(
                [given["messages"]], tools=given.get("tools"), chat_template=template,
                add_generation_prompt=chat.get("add_generation_prompt", True),
                continue_final_message=chat.get("continue_final_message", False),
                bos_token="<|endoftext|>", eos_token="<|im_end|>", **chat.get("chat_template_kwargs", {}))
            expect = prompts[0]
        except Exception:
            expect = None
        cases.append({"template": name, "request": chat, "prompt": expect})
(HERE / "rendered.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
print(len(cases), "cases,", sum(c["prompt"] is None for c in cases), "refused")
