//! A model's chat template, run as transformers runs it.

use std::path::Path;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{context, Environment, Error, ErrorKind, Output, State};
use serde_json::Value as Json;

use crate::analysis::{analyse, whitespace, Analysis};
use crate::messages::{self, Api, MEDIA};
use crate::pyjson;
use crate::Reason;

const CONTINUE: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

pub struct ChatTemplate {
    environment: Environment<'static>,
    tool_use: bool, // there is one of its own for requests with tools
    specials: Vec<(String, String)>,
    pub analysis: Analysis,
    pub knows_developer: bool,
    /// Its text depends on the day.
    pub uses_time: bool,
    disabled_effort: &'static str,
}

pub struct Rendered {
    pub text: String,
    /// Something that is no text follows.
    pub cut: bool,
}

impl ChatTemplate {
    /// From a folder as on a model hub; nothing when it has no template.
    pub fn load(folder: &Path) -> Result<Option<ChatTemplate>, String> {
        let config: Json = match std::fs::read_to_string(folder.join("tokenizer_config.json")) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| format!("tokenizer_config.json: {e}"))?,
            Err(_) => Json::Null,
        };
        let mut plain = std::fs::read_to_string(folder.join("chat_template.jinja")).ok();
        let mut with_tools = None;
        match &config["chat_template"] {
            Json::String(text) => drop(plain.get_or_insert(text.clone())),
            Json::Array(named) => {
                for entry in named {
                    let text = entry["template"].as_str().map(str::to_owned);
                    match entry["name"].as_str() {
                        Some("default") if plain.is_none() => plain = text,
                        Some("tool_use") => with_tools = text,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        let Some(plain) = plain else { return Ok(None) };
        Self::new(plain, with_tools, special_tokens(&config)).map(Some).map_err(|e| format!("chat template: {e:#}"))
    }

    fn new(plain: String, with_tools: Option<String>, specials: Vec<(String, String)>) -> Result<Self, Error> {
        let mut analysis = analyse(&plain);
        if let Some(text) = &with_tools {
            let other = analyse(text);
            analysis.opaque |= other.opaque || other.wants_parts != analysis.wants_parts;
            analysis.literals.extend(other.literals);
        }
        let sources = [Some(&plain), with_tools.as_ref()];
        let mentions = |what: &str| sources.iter().flatten().any(|s| s.contains(what));
        let mut made = ChatTemplate {
            environment: environment(),
            tool_use: with_tools.is_some(),
            specials,
            analysis,
            knows_developer: mentions("'developer'") || mentions("\"developer\""),
            uses_time: mentions("strftime_now"),
            disabled_effort: "none",
        };
        if let Some(text) = with_tools {
            made.environment.add_template_owned("tool_use", without_generation(text))?;
        }
        made.environment.add_template_owned("chat", without_generation(plain))?;
        made.disabled_effort = made.effort_without_thinking();
        Ok(made)
    }

    /// As vLLM finds it out: "low" where "none" is refused, or printed as any other.
    fn effort_without_thinking(&self) -> &'static str {
        let printed = |effort: &str| {
            let request = serde_json::json!({"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort});
            self.render(Api::Chat, request).map(|r| r.text)
        };
        let none = printed("none");
        match none.is_err() || ["low", "medium", "high", "xhigh", "max"].iter().any(|e| printed(e) == none) {
            true => "low",
            false => "none",
        }
    }

    pub fn render(&self, api: Api, request: Json) -> Result<Rendered, Reason> {
        let mut chat = messages::read(api, request, self.analysis.wants_parts, self.disabled_effort)?;
        if !self.knows_developer {
            developer_as_system(&mut chat.messages);
        }
        let tagged = chat.continue_final_message && add_tag(&mut chat.messages)?;
        let mut variables: Vec<(String, Value)> =
            self.specials.iter().map(|(k, v)| (k.clone(), Value::from(v.clone()))).collect();
        variables.extend(chat.variables.iter().map(|(k, v)| (k.clone(), Value::from_serialize(v))));
        let variables: Value = variables.into_iter().collect();
        let has_tools = chat.tools.is_array();
        let ours = context! {
            messages => Value::from_serialize(&chat.messages),
            tools => Value::from_serialize(&chat.tools),
            documents => Value::from_serialize(&chat.documents),
            add_generation_prompt => chat.add_generation_prompt,
            ..variables
        };
        let name = if self.tool_use && has_tools { "tool_use" } else { "chat" };
        let template = self.environment.get_template(name).map_err(|_| Reason::Template)?;
        let mut text = template.render(ours).map_err(|_| Reason::Template)?;
        if tagged {
            cut_at_tag(&mut text)?;
        }
        let media = text.find(MEDIA);
        if let Some(at) = media {
            text.truncate(at);
        }
        Ok(Rendered { text, cut: media.is_some() })
    }
}

/// `{% generation %}` only marks what the model said; it prints its body.
fn without_generation(source: String) -> String {
    let mut out = source;
    for (tag, same) in [("endgeneration", "endif"), ("generation", "if true")] {
        for (open, close) in [("{%", "%}"), ("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}")] {
            out = out.replace(&format!("{open} {tag} {close}"), &format!("{open} {same} {close}"));
        }
    }
    out
}

fn special_tokens(config: &Json) -> Vec<(String, String)> {
    let names = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
    let text = |name: &str| match &config[name] {
        Json::String(s) => Some(s.clone()),
        token => token["content"].as_str().map(str::to_owned),
    };
    names.iter().filter_map(|&n| text(n).map(|t| (n.to_owned(), t))).collect()
}

fn developer_as_system(messages: &mut Vec<Json>) {
    if !messages.iter().any(|m| m["role"] == "developer") {
        return;
    }
    for message in messages.iter_mut().filter(|m| m["role"] == "developer") {
        message["role"] = "system".into();
        message.as_object_mut().map(|m| m.remove("tools"));
    }
    let system = |m: &Json| m["role"] == "system";
    if messages.iter().skip(1).any(system) {
        let text = |m: &Json| match &m["content"] {
            Json::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n"),
            content => content.as_str().unwrap_or_default().to_owned(),
        };
        let all: Vec<String> = messages.iter().filter(|m| system(m)).map(text).filter(|t| !t.is_empty()).collect();
        messages.retain(|m| !system(m));
        messages.insert(0, serde_json::json!({"role": "system", "content": all.join("\n\n")}));
    }
}

fn add_tag(messages: &mut [Json]) -> Result<bool, Reason> {
    let content = &mut messages.last_mut().ok_or(Reason::Invalid)?["content"];
    let text = match content {
        Json::Array(parts) => {
            let last = parts.iter_mut().rev().find(|p| p.get("text").is_some()).ok_or(Reason::Invalid)?;
            &mut last["text"]
        }
        text => text,
    };
    let tagged = format!("{}{CONTINUE}", text.as_str().ok_or(Reason::Invalid)?);
    *text = tagged.into();
    Ok(true)
}

fn cut_at_tag(text: &mut String) -> Result<(), Reason> {
    let at = text.rfind(CONTINUE.trim_end()).ok_or(Reason::Template)?;
    let kept_space = text[at..].starts_with(CONTINUE);
    text.truncate(at);
    if !kept_space {
        text.truncate(text.trim_end().len());
    }
    Ok(())
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    let ws = whitespace();
    env.set_trim_blocks(ws.trim_blocks);
    env.set_lstrip_blocks(ws.lstrip_blocks);
    env.set_keep_trailing_newline(ws.keep_trailing_newline);
    env.set_recursion_limit(200);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_formatter(format_as_python);
    env.set_unknown_method_callback(more_methods);
    env.add_filter("tojson", to_json);
    env.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    env.add_function("strftime_now", now_as);
    env
}

fn format_as_python(out: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    let as_python = match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(f) => pyjson::float_repr(f),
            Err(_) => return minijinja::escape_formatter(out, state, value),
        },
        _ => return minijinja::escape_formatter(out, state, value),
    };
    out.write_str(&as_python).map_err(|_| Error::from(ErrorKind::WriteFailure))
}

/// Methods of Python's strings that minijinja-contrib lacks.
fn more_methods(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), Some(arg)) = (value.as_str(), args.first().and_then(Value::as_str)) {
        let pieces = |all: Vec<&str>| Value::from_iter(all.into_iter().map(str::to_owned));
        match (method, args.len()) {
            ("rsplit", 1) if !arg.is_empty() => return Ok(pieces(text.split(arg).collect())),
            ("rsplit", 2) if !arg.is_empty() => {
                let limit = usize::try_from(args[1].clone()).unwrap_or(usize::MAX - 1);
                let mut all: Vec<&str> = text.rsplitn(limit.saturating_add(1), arg).collect();
                all.reverse();
                return Ok(pieces(all));
            }
            ("removeprefix", 1) => return Ok(text.strip_prefix(arg).unwrap_or(text).into()),
            ("removesuffix", 1) => return Ok(text.strip_suffix(arg).unwrap_or(text).into()),
            ("partition", 1) if !arg.is_empty() => {
                return Ok(match text.split_once(arg) {
                    Some((before, after)) => pieces(vec![before, arg, after]),
                    None => pieces(vec![text, "", ""]),
                });
            }
            _ => {}
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

fn to_json(value: Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "undefined is not JSON"));
    }
    let json = serde_json::to_value(&value)
        .map_err(|e| Error::new(ErrorKind::BadSerialization, "not JSON").with_source(e))?;
    let indent = options.get::<Option<usize>>("indent")?.or(indent);
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.as_str(), key.as_str()),
        _ if indent.is_some() => (",", ": "),
        _ => (", ", ": "),
    };
    let style = pyjson::Style {
        indent,
        item_separator: item,
        key_separator: key,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    Ok(Value::from(pyjson::dumps(&json, &style)))
}

fn now_as(format: String) -> Result<String, Error> {
    let format = std::ffi::CString::new(format).map_err(|_| Error::from(ErrorKind::InvalidOperation))?;
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer's size is given, and the C strings and structs outlive the calls.
    let written = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut parts);
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &parts)
    };
    Ok(String::from_utf8_lossy(&buffer[..written]).into_owned())
}
