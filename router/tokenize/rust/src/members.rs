//! A JSON object whose members are taken out of it one by one, without a copy.

use serde_json::{Map, Value};

use crate::Reason;

pub type Members = Map<String, Value>;

pub fn take(from: &mut Members, name: &str) -> Value {
    from.get_mut(name).map(Value::take).unwrap_or(Value::Null)
}

pub fn take_array(from: &mut Members, name: &str) -> Result<Vec<Value>, Reason> {
    match take(from, name) {
        Value::Array(items) if !items.is_empty() => Ok(items),
        _ => Err(Reason::Invalid),
    }
}

pub fn take_string(from: &mut Members, name: &str) -> Option<String> {
    match take(from, name) {
        Value::String(s) => Some(s),
        _ => None,
    }
}
