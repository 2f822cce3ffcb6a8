//! Values as Python's `json.loads` reads, and `json.dumps` and `str` write them, which is what templates put into prompts.

use serde_json::Value;

use crate::Reason;

/// Nothing: it is no JSON. Unsupported: Python makes a value of it that we have not.
pub fn loads(text: &str) -> Result<Option<Value>, Reason> {
    match serde_json::from_str(text) {
        Ok(_) if has_large_integers(text) => Err(Reason::Unsupported),
        Ok(value) => Ok(Some(value)),
        Err(e) if e.is_eof() => Ok(None),
        // Python reads NaN, Infinity, 1e999, halves of surrogate pairs and nesting of any depth.
        Err(e) => {
            let why = e.to_string();
            let limits = why.starts_with("number out of range") || why.starts_with("recursion limit");
            let known = !limits && !["NaN", "Infinity", "\\u"].iter().any(|s| text.contains(s));
            known.then_some(None).ok_or(Reason::Unsupported)
        }
    }
}

/// Whether JSON has integers that would be floats here, and be written as such: those beyond 64 bits, and -0.
pub fn has_large_integers(json: &str) -> bool {
    let mut rest = json.as_bytes();
    while let Some(&first) = rest.first() {
        let length = match first {
            b'"' => {
                let mut end = 1;
                while end < rest.len() && rest[end] != b'"' {
                    end += if rest[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            b'-' | b'0'..=b'9' => {
                let of_number = |c: &u8| c.is_ascii_digit() || b"+-.eE".contains(c);
                let number = &rest[..rest.iter().position(|c| !of_number(c)).unwrap_or(rest.len())];
                let is_integer = !number.iter().any(|c| b".eE".contains(c));
                let text = std::str::from_utf8(number).unwrap_or_default();
                let is_ours = text != "-0" && (text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok());
                if is_integer && !is_ours {
                    return true;
                }
                number.len()
            }
            _ => 1,
        };
        rest = &rest[length.min(rest.len())..];
    }
    false
}

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
    fn reads_what_python_reads_or_says_so() {
        for same in [
            "{}", "[1,-1,9223372036854775807,-9223372036854775808,18446744073709551615]", "[0,-0.0,1e30,-1E+5,0.30000000000000004]",
            r#"{"123456789012345678901234567890":"\"-0, NaN 98765432109876543210987"}"#,
        ] {
            assert!(matches!(loads(same), Ok(Some(_))), "{same}");
        }
        for broken in ["", "{", r#"{"a":"b"#, "{'a':1}", "[01]", "[1.]", "{\"a\":1}x", "[tru]", r#"["\x"]"#, "{\"a\":"] {
            assert!(matches!(loads(broken), Ok(None)), "{broken}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        for other in [
            "123456789012345678901234567890", "[-9223372036854775809]", r#"{"a\\":18446744073709551616}"#, "[-0]", "[1, -0]", "[NaN]",
            "{\"a\":-Infinity}", "1e999", r#"["\ud83d"]"#, deep.as_str(),
        ] {
            assert!(matches!(loads(other), Err(Reason::Unsupported)), "{other}");
        }
    }

    /// Python's shortest digits are 17 now and then, more than a quick conversion keeps.
    #[test]
    fn keeps_all_digits() {
        let mut bits: u64 = 1;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let number = (bits >> 11) as f64 / (1u64 << 53) as f64 * 360.0;
            let text = float_repr(number);
            assert_eq!(dumps(&loads(&text).unwrap().unwrap(), &Style::default()), text);
        }
    }

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
