//! Values as Python's `json.dumps` and `str` write them, which is what templates put into prompts.

use serde_json::Value;

pub struct Style<'a> {
    pub indent: Option<usize>,
    pub item_separator: &'a str,
    pub key_separator: &'a str,
    pub ascii: bool,
    pub sort_keys: bool,
}

impl Default for Style<'_> {
    fn default() -> Self {
        Style { indent: None, item_separator: ", ", key_separator: ": ", ascii: false, sort_keys: false }
    }
}

pub fn dumps(value: &Value, style: &Style) -> String {
    let mut out = String::new();
    write(value, style, 0, &mut out);
    out
}

fn write(value: &Value, style: &Style, level: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() => out.push_str(&float_repr(f)),
            _ => out.push_str(&n.to_string()),
        },
        Value::String(s) => write_string(s, style.ascii, out),
        Value::Array(items) => {
            sequence(style, level, '[', ']', items.iter(), out, |item, out| write(item, style, level + 1, out))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if style.sort_keys {
                members.sort_by_key(|(k, _)| k.as_str());
            }
            sequence(style, level, '{', '}', members.into_iter(), out, |(k, v), out| {
                write_string(k, style.ascii, out);
                out.push_str(style.key_separator);
                write(v, style, level + 1, out);
            })
        }
    }
}

fn sequence<T>(
    style: &Style,
    level: usize,
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    out: &mut String,
    mut item: impl FnMut(T, &mut String),
) {
    out.push(open);
    let mut any = false;
    for x in items {
        if any {
            out.push_str(style.item_separator);
        }
        any = true;
        newline(style, level + 1, out);
        item(x, out);
    }
    if any {
        newline(style, level, out);
    }
    out.push(close);
}

fn newline(style: &Style, level: usize, out: &mut String) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat(' ').take(indent * level));
    }
}

fn write_string(s: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && c as u32 > 0x7e) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `repr(float)`: the shortest digits, with an exponent below 1e-4 and from 1e16 on.
pub fn float_repr(f: f64) -> String {
    if f.is_nan() {
        return "NaN".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{f:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || f == 0.0 {
        let plain = format!("{f}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_python_writes() {
        let value: Value = serde_json::from_str(r#"{"b":[1,2.0,1e16,1e-5,0.1,-0.0],"a":{},"é\n":"\u001f😀"}"#).unwrap();
        assert_eq!(
            dumps(&value, &Style::default()),
            "{\"b\": [1, 2.0, 1e+16, 1e-05, 0.1, -0.0], \"a\": {}, \"é\\n\": \"\\u001f😀\"}"
        );
        let style = Style { indent: Some(2), item_separator: ",", ascii: true, sort_keys: true, ..Style::default() };
        assert_eq!(
            dumps(&value, &style).replace('\n', "|"),
            "{|  \"a\": {},|  \"b\": [|    1,|    2.0,|    1e+16,|    1e-05,|    0.1,|    -0.0|  ],|  \"\\u00e9\\n\": \"\\u001f\\ud83d\\ude00\"|}"
        );
    }
}
