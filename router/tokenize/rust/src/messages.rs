//! A request's JSON as what a chat template is given, the way vLLM 0.32 does it: parts joined or kept,
//! tool calls with their arguments as objects, tools in their canonical member order.

use serde_json::{json, Map, Value};

use crate::members::{take, take_array, take_string, Members};
use crate::{pyjson, responses, Reason};

/// Stands where a part begins that is no text. The prompt is known up to the first of them.
pub const MEDIA: &str = "\u{10FFFD}media\u{10FFFD}";
/// What Claude Code puts into its system prompt, new in every request; vLLM drops it.
const BILLING: &str = "x-anthropic-billing-header";

pub struct Conversation {
    pub messages: Vec<Value>,
    pub tools: Value,
    pub documents: Value,
    pub variables: Map<String, Value>,
    pub add_generation_prompt: bool,
    pub continue_final_message: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Api {
    Chat,
    Responses,
    Anthropic,
}

/// `disabled_effort`: the reasoning effort of Anthropic requests without thinking.
pub fn read(api: Api, request: Value, parts: bool, disabled_effort: &str) -> Result<Conversation, Reason> {
    let Value::Object(mut request) = request else { return Err(Reason::Invalid) };
    if request.get("chat_template").is_some_and(|t| !t.is_null()) {
        return Err(Reason::RequestTemplate);
    }
    let (messages, tools) = match api {
        Api::Chat => (take_array(&mut request, "messages")?, take(&mut request, "tools")),
        Api::Responses => responses::chat_of(&mut request)?,
        Api::Anthropic => anthropic(&mut request, disabled_effort)?,
    };
    let flag = |name: &str, default| request.get(name).map_or(default, |v| v.as_bool().unwrap_or(default));
    let continue_final_message = api != Api::Anthropic && flag("continue_final_message", false);
    let add_generation_prompt = api == Api::Anthropic || flag("add_generation_prompt", true);
    let mut variables = match take(&mut request, "chat_template_kwargs") {
        Value::Object(given) => given,
        _ => Map::new(),
    };
    for ours in ["messages", "chat_template", "tokenize"] {
        variables.remove(ours);
    }
    if let Value::String(effort) = take(&mut request, "reasoning_effort") {
        if !variables.contains_key("enable_thinking") {
            variables.insert("enable_thinking".into(), (effort != "none").into());
        }
        variables.insert("reasoning_effort".into(), effort.into());
    }
    variables.retain(|_, value| !value.is_null() && value != "auto");
    // The request's own documents go before those among the variables, its tools behind them.
    let documents = match (take(&mut request, "documents"), variables.remove("documents")) {
        (Value::Null, Some(given)) => given,
        (own, _) => own,
    };
    let tools = match variables.remove("tools") {
        Some(given) => given,
        None => canonical_tools(tools)?,
    };
    Ok(Conversation {
        messages: messages.into_iter().map(|m| message(m, parts)).collect::<Result<_, _>>()?,
        tools,
        documents,
        variables,
        add_generation_prompt,
        continue_final_message,
    })
}

/// vLLM dumps its own fields in this order, and null for what was not given.
fn canonical_tools(tools: Value) -> Result<Value, Reason> {
    let Value::Array(tools) = tools else { return Ok(Value::Null) };
    let mut out = Vec::with_capacity(tools.len());
    for tool in tools {
        let Value::Object(mut tool) = tool else { return Err(Reason::Invalid) };
        let Value::Object(mut function) = take(&mut tool, "function") else { return Err(Reason::Invalid) };
        let mut canonical = Map::new();
        for name in ["name", "description", "parameters"] {
            canonical.insert(name.into(), take(&mut function, name));
        }
        for name in ["strict", "defer_loading"] {
            match take(&mut function, name) {
                Value::Null => {}
                given => drop(canonical.insert(name.into(), given)),
            }
        }
        let mut whole = Map::new();
        whole.insert("type".into(), "function".into());
        whole.insert("function".into(), canonical.into());
        out.push(whole.into());
    }
    Ok(Value::Array(out))
}

fn message(message: Value, parts: bool) -> Result<Value, Reason> {
    let Value::Object(mut given) = message else { return Err(Reason::Invalid) };
    let role = take_string(&mut given, "role").ok_or(Reason::Invalid)?;
    let content = match take(&mut given, "content") {
        Value::Null => Vec::new(),
        Value::String(text) => vec![Value::String(text)],
        Value::Array(items) => items,
        _ => return Err(Reason::Invalid),
    };
    let mut out = Map::new();
    out.insert("role".into(), role.clone().into());
    // Tool results are plain strings for every template. Of parts that a template loops over none is left out first.
    out.insert("content".into(), content_of(&role, content, parts && role != "tool", parts)?);
    match role.as_str() {
        "assistant" => {
            let calls = tool_calls(take(&mut given, "tool_calls"))?;
            if !calls.is_empty() {
                out.insert("tool_calls".into(), calls.into());
            }
            if let reasoning @ Value::String(_) = take(&mut given, "reasoning") {
                out.insert("reasoning".into(), reasoning.clone());
                out.insert("reasoning_content".into(), reasoning);
            }
        }
        "tool" => {
            if let Some(id) = given.get_mut("tool_call_id") {
                out.insert("tool_call_id".into(), id.take());
            }
        }
        "developer" => drop(out.insert("tools".into(), take(&mut given, "tools"))),
        _ => {}
    }
    if let name @ Value::String(_) = take(&mut given, "name") {
        out.insert("name".into(), name);
    }
    Ok(out.into())
}

/// `keep_empty`: whether empty texts count where they are joined.
fn content_of(role: &str, content: Vec<Value>, parts: bool, keep_empty: bool) -> Result<Value, Reason> {
    let mut texts: Vec<Value> = Vec::with_capacity(content.len());
    let mut media = false;
    for part in content {
        let text = match part {
            Value::String(text) => Some(text),
            Value::Object(mut part) => match part.get("type").and_then(Value::as_str) {
                Some("text" | "input_text" | "output_text" | "refusal" | "thinking") => {
                    let member = match part["type"].as_str() {
                        Some("refusal") => "refusal",
                        Some("thinking") => "thinking",
                        _ => "text",
                    };
                    match take_string(&mut part, member) {
                        Some(text) => Some(text),
                        None => continue,
                    }
                }
                _ => None,
            },
            _ => return Err(Reason::Invalid),
        };
        media |= text.is_none();
        let text = match text {
            Some(text) if role == "system" && text.starts_with(BILLING) => match text.split_once('\n') {
                Some((_, rest)) if !rest.is_empty() => rest.to_owned(),
                _ => continue,
            },
            Some(text) => text,
            None => MEDIA.to_owned(),
        };
        texts.push(if parts { json!({"type": "text", "text": text}) } else { text.into() });
    }
    if parts {
        return Ok(texts.into());
    }
    let kept = texts.iter().filter_map(Value::as_str).filter(|text| keep_empty || !text.is_empty());
    let joined = kept.collect::<Vec<_>>().join("\n");
    // Where an engine puts its media marks into a joined text differs from model to model: most put
    // them first.
    Ok(if media { format!("{MEDIA}{joined}").into() } else { joined.into() })
}

fn tool_calls(calls: Value) -> Result<Vec<Value>, Reason> {
    let Value::Array(mut calls) = calls else { return Ok(Vec::new()) };
    for call in &mut calls {
        let function = call.get_mut("function").and_then(Value::as_object_mut).ok_or(Reason::Invalid)?;
        let arguments = match take(function, "arguments") {
            object @ Value::Object(_) => object,
            Value::String(text) => match pyjson::loads(&text)? {
                Some(object @ Value::Object(_)) => object,
                _ => json!({}),
            },
            _ => json!({}),
        };
        function.insert("arguments".into(), arguments);
    }
    Ok(calls)
}

fn anthropic(request: &mut Members, disabled_effort: &str) -> Result<(Vec<Value>, Value), Reason> {
    let mut effort = take(request, "output_config").get_mut("effort").map(Value::take).unwrap_or_default();
    if take(request, "thinking")["type"] == "disabled" {
        effort = disabled_effort.into();
    }
    request.insert("reasoning_effort".into(), effort);
    let mut messages = Vec::new();
    let system = plain_text(take(request, "system"));
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system}));
    }
    for message in take_array(request, "messages")? {
        let Value::Object(mut message) = message else { return Err(Reason::Invalid) };
        let role = take_string(&mut message, "role").ok_or(Reason::Invalid)?;
        match take(&mut message, "content") {
            content if role == "system" => {
                let text = plain_text(content);
                if !text.is_empty() {
                    messages.push(json!({"role": role, "content": text}));
                }
            }
            Value::Array(blocks) => anthropic_blocks(role, blocks, &mut messages)?,
            content => messages.push(json!({"role": role, "content": content})),
        }
    }
    Ok((messages, claude_tools(take(request, "tools"))))
}

fn claude_tools(tools: Value) -> Value {
    let Value::Array(mut tools) = tools else { return Value::Null };
    for tool in &mut tools {
        if let Value::Object(function) = tool {
            let mut schema = take(function, "input_schema");
            if let Value::Object(schema) = &mut schema {
                schema.entry("type").or_insert_with(|| "object".into());
            }
            function.insert("parameters".into(), schema);
        }
        *tool = json!({"function": tool.take()});
    }
    tools.into()
}

fn plain_text(content: Value) -> String {
    let parts = match content {
        Value::Array(parts) => parts,
        Value::String(text) => vec![json!({"text": text})],
        _ => Vec::new(),
    };
    let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    parts.iter().filter_map(text).filter(|t| !t.starts_with(BILLING)).collect()
}

fn anthropic_blocks(role: String, blocks: Vec<Value>, messages: &mut Vec<Value>) -> Result<(), Reason> {
    let (mut content, mut calls, mut reasoning) = (Vec::new(), Vec::new(), String::new());
    for block in blocks {
        let Value::Object(mut block) = block else { return Err(Reason::Invalid) };
        match block.get("type").and_then(Value::as_str) {
            Some("thinking") => reasoning.push_str(&take_string(&mut block, "thinking").unwrap_or_default()),
            Some("redacted_thinking" | "tool_reference") => {}
            Some("tool_use") => calls.push(json!({"id": take(&mut block, "id"), "type": "function",
                "function": {"name": take(&mut block, "name"), "arguments": take(&mut block, "input")}})),
            Some("tool_result") if role == "user" => {
                let text = match take(&mut block, "content") {
                    Value::Array(parts) => content_of("tool", parts, false, true)?,
                    Value::String(text) => text.into(),
                    _ => "".into(),
                };
                messages.push(json!({"role": "tool", "tool_call_id": take(&mut block, "tool_use_id"), "content": text}));
            }
            Some("text") if block.get("text").map_or(true, |text| text == "") => {}
            _ => content.push(Value::Object(block)),
        }
    }
    if content.is_empty() && role == "user" {
        return Ok(());
    }
    let mut message = json!({"role": role, "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if !reasoning.is_empty() {
        message["reasoning"] = reasoning.into();
    }
    messages.push(message);
    Ok(())
}
