//! A request of `/v1/responses` as a chat. An agent's turn is several items and one message.

use serde_json::{json, Value};

use crate::members::{take, take_string, Members};
use crate::Reason;

/// Messages and tools; also sets the request's flags and effort as a chat has them.
pub fn chat_of(request: &mut Members) -> Result<(Vec<Value>, Value), Reason> {
    if request.get("previous_response_id").is_some_and(|id| !id.is_null()) {
        return Err(Reason::Stateful);
    }
    let mut messages = Vec::new();
    match take(request, "instructions") {
        Value::String(text) if !text.is_empty() => messages.push(json!({"role": "system", "content": text})),
        _ => {}
    }
    let mut continues = false;
    match take(request, "input") {
        text @ Value::String(_) => messages.push(json!({"role": "user", "content": text})),
        Value::Array(items) => {
            continues = items.last().is_some_and(is_unfinished);
            for item in items {
                add_item(item, &mut messages)?;
            }
        }
        _ => return Err(Reason::Invalid),
    }
    request.insert("add_generation_prompt".into(), (!continues).into());
    request.insert("continue_final_message".into(), continues.into());
    let effort = match take(request, "reasoning") {
        Value::Object(mut reasoning) => take(&mut reasoning, "effort"),
        _ => Value::Null,
    };
    request.insert("reasoning_effort".into(), effort);
    Ok((messages, function_tools(take(request, "tools"))))
}

fn is_unfinished(item: &Value) -> bool {
    matches!(item.get("type").map_or(Some("message"), Value::as_str), Some("message" | "reasoning"))
        && matches!(item["status"].as_str(), Some("incomplete" | "in_progress"))
}

fn add_item(item: Value, messages: &mut Vec<Value>) -> Result<(), Reason> {
    let Value::Object(mut item) = item else { return Err(Reason::Invalid) };
    match item.get("type").and_then(Value::as_str) {
        Some("function_call") => {
            let name = take_string(&mut item, "name").ok_or(Reason::Invalid)?;
            let name = match take_string(&mut item, "namespace") {
                Some(space) if !space.is_empty() => flat_name(&space, &name),
                _ => name,
            };
            let arguments = take(&mut item, "arguments");
            add_call(take(&mut item, "call_id"), name.into(), arguments, messages);
        }
        Some("custom_tool_call") => {
            let arguments = json!({"input": take_string(&mut item, "input").unwrap_or_default()});
            add_call(take(&mut item, "call_id"), take(&mut item, "name"), arguments, messages);
        }
        Some("function_call_output" | "custom_tool_call_output") => messages.push(json!({"role": "tool",
            "content": take(&mut item, "output"), "tool_call_id": take(&mut item, "call_id")})),
        Some("reasoning") => {
            if item.get("encrypted_content").and_then(Value::as_str).is_some_and(|c| !c.is_empty()) {
                return Err(Reason::Invalid);
            }
            let text = first_text(&item, "content").or_else(|| first_text(&item, "summary"));
            say("reasoning", text.unwrap_or_default(), messages);
        }
        _ => match item.get("role").and_then(Value::as_str) {
            Some("assistant") => match item.get("content").and_then(Value::as_str).map(str::to_owned) {
                Some(text) => say("content", text, messages),
                None => match first_text(&item, "content") {
                    Some(text) => say("content", text, messages),
                    None => messages.push(item.into()),
                },
            },
            Some(_) => messages.push(item.into()),
            None => return Err(Reason::Unsupported),
        },
    }
    Ok(())
}

/// Of a list of parts vLLM takes the first alone.
fn first_text(item: &Members, member: &str) -> Option<String> {
    item.get(member)?.get(0)?.get("text")?.as_str().map(str::to_owned)
}

/// The assistant's message that may still get `member`: the last one, else a new one.
fn open_message<'a>(member: &str, messages: &'a mut Vec<Value>) -> &'a mut Value {
    if !messages.last().is_some_and(|m| m["role"] == "assistant" && m[member].is_null()) {
        messages.push(json!({"role": "assistant"}));
    }
    let last = messages.len() - 1;
    &mut messages[last]
}

fn say(member: &str, text: String, messages: &mut Vec<Value>) {
    open_message(member, messages)[member] = text.into();
}

fn add_call(id: Value, name: Value, arguments: Value, messages: &mut Vec<Value>) {
    let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    match messages.last_mut().and_then(|m| m.get_mut("tool_calls")).and_then(Value::as_array_mut) {
        Some(calls) => calls.push(call),
        None => open_message("tool_calls", messages)["tool_calls"] = json!([call]),
    }
}

fn flat_name(space: &str, name: &str) -> String {
    format!("{space}__{name}")
}

/// Functions are shown to the model, alone or in a namespace, and custom tools as functions of one text; built-in
/// ones are not.
fn function_tools(tools: Value) -> Value {
    let Value::Array(tools) = tools else { return Value::Null };
    if tools.is_empty() {
        return Value::Null;
    }
    let mut out = Vec::with_capacity(tools.len());
    for mut tool in tools {
        match tool["type"].as_str() {
            Some("function") => out.push(json!({"function": tool})),
            Some("custom") => out.push(json!({"function": {"name": tool["name"], "description": tool["description"],
                "parameters": {"type": "object", "properties": {"input": {"type": "string",
                    "description": "The freeform text payload for this tool."}},
                    "required": ["input"], "additionalProperties": false}}})),
            Some("namespace") => {
                let space = tool["name"].as_str().unwrap_or_default().to_owned();
                for mut inner in tool["tools"].as_array_mut().map(std::mem::take).unwrap_or_default() {
                    if inner["type"] == "function" {
                        inner["name"] = flat_name(&space, inner["name"].as_str().unwrap_or_default()).into();
                        out.push(json!({"function": inner}));
                    }
                }
            }
            _ => {}
        }
    }
    out.into()
}
