//! A model's tokenizer: a fast exact one where it proves equal to Hugging Face's, else that itself.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use serde_json::Value as Json;
use tokenizers::Tokenizer as Reference;

pub struct Tokens {
    fast: Option<fastokens::Tokenizer>,
    reference: Option<Reference>,
    /// What `add_special_tokens` puts before and after a text.
    pub before: Vec<u32>,
    pub after: Vec<u32>,
    /// No token has inside: bit 0 a space before a letter after something that is no space, bit 1 a
    /// line's end before a letter, bit 2 a CJK full stop or comma before a letter.
    pub cuts: u32,
    pub ids: u32,
}

impl Tokens {
    /// `keep_reference`: for tests, which compare with it.
    pub fn load(file: &Path, keep_reference: bool) -> Result<Tokens, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let json: Json = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut reference: Reference = text.parse().map_err(|e| format!("{}: {e}", file.display()))?;
        reference.with_truncation(None).map_err(|e| e.to_string())?;
        reference.with_padding(None);
        drop(text);
        let fast = catch_unwind(|| fastokens::Tokenizer::from_json(json.clone()).ok()).ok().flatten();
        let fast = fast.filter(|f| proves_equal(f, &reference));
        let (before, after) = specials(&reference).ok_or("special tokens can't be told from a text's own")?;
        let cuts = cuts(&json);
        let ids = reference.get_vocab_size(true) as u32;
        let reference = (fast.is_none() || keep_reference).then_some(reference);
        Ok(Tokens { fast, reference, before, after, cuts, ids })
    }

    pub fn is_fast(&self) -> bool {
        self.fast.is_some()
    }

    /// The ids of a text alone.
    pub fn encode(&self, text: &str, by_reference: bool) -> Option<Vec<u32>> {
        match (&self.fast, &self.reference) {
            (Some(fast), _) if !by_reference => encode_fast(fast, text),
            (_, Some(reference)) => encode_reference(reference, text),
            _ => None,
        }
    }
}

fn encode_fast(fast: &fastokens::Tokenizer, text: &str) -> Option<Vec<u32>> {
    fast.encode_with_special_tokens(text, false).ok()
}

fn encode_reference(reference: &Reference, text: &str) -> Option<Vec<u32>> {
    reference.encode_fast(text, false).ok().map(|e| e.get_ids().to_vec())
}

fn specials(reference: &Reference) -> Option<(Vec<u32>, Vec<u32>)> {
    let all = reference.encode_fast("hello", true).ok()?.get_ids().to_vec();
    let own = encode_reference(reference, "hello")?;
    let at = (0..=all.len().checked_sub(own.len())?).find(|&at| all[at..].starts_with(&own))?;
    Some((all[..at].to_vec(), all[at + own.len()..].to_vec()))
}

/// Random texts of all kinds with every added token between them, and texts of random tokens, which
/// try the merges that real texts seldom need.
fn proves_equal(fast: &fastokens::Tokenizer, reference: &Reference) -> bool {
    let added: Vec<String> = reference.get_added_tokens_decoder().values().map(|t| t.content.clone()).collect();
    let ids = reference.get_vocab_size(true);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    (0..PROOF_TEXTS).all(|i| {
        let text = if i % 2 == 0 {
            random_text(&mut random, &added)
        } else {
            let ids: Vec<u32> = (0..100).map(|_| random.below(ids) as u32).collect();
            reference.decode(&ids, false).unwrap_or_default()
        };
        let given = catch_unwind(AssertUnwindSafe(|| encode_fast(fast, &text))).ok().flatten();
        given.is_some() && given == encode_reference(reference, &text)
    })
}

const PROOF_TEXTS: usize = 400;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

#[rustfmt::skip]
const SNIPPETS: &[&str] = &[
    "Hello", " world", " the", " The quick", "'s", "'LL", " don't", "ing", " 12345", "2026-11-30", " 3.14", "  ", "   ", "\n",
    "\n\n", "\r\n", " \n", "\t", "\t\t", "\u{a0}", "\u{3000}", "\u{2028}", " {\n    return", "();\n", "</div>", "<|", "|>", "==", "!!",
    "...", " —", "“", "”", "你好", "世界。", "，", "日本語の", "テキスト", "한국어", " 문장", "Привет", " мир", "ελληνικά", "العربية", " שלום",
    "हिन्दी", "ภาษาไทย", "é", "e\u{301}", "ﬁ", "①", "½", "😀", "👨‍👩‍👧", "🇩🇪", "\u{200b}", "\u{feff}", "\u{0}", "\u{1f}", "ß", "İ", "ſ",
    "https://a.b/c?d=e&f", "snake_case", "CamelCase", "ALLCAPS", " a", "a", "A", "1", "0x1F", " \u{301}", "\\n", "\"quoted\"", "'", "`",
    "[INST]", "<s>", "<unk>", "▁", "Ġ", "Ċ", "123 456", "1,000,000", "# Title\n", "- item\n", "x = y + z;", " && ", "\n  - ", "\n\n\n",
];

fn random_text(random: &mut Random, added: &[String]) -> String {
    let mut text = String::new();
    for _ in 0..20 + random.below(150) {
        match random.below(20) {
            0 if !added.is_empty() => text.push_str(&added[random.below(added.len())]),
            1 => text.extend(char::from_u32(random.below(0x3100) as u32)),
            2 => text.extend(char::from_u32(random.below(0x20000) as u32)),
            3..=6 => {
                text.push(' ');
                (0..1 + random.below(9)).for_each(|_| text.push((b'a' + random.below(26) as u8) as char));
            }
            _ => text.push_str(SNIPPETS[random.below(SNIPPETS.len())]),
        }
    }
    text
}

/// Which rules no token of the vocabulary breaks. The rest of a tokenizer (its normalizer, its way of
/// splitting) is tried out by the caller.
fn cuts(json: &Json) -> u32 {
    let byte_level = mentions_byte_level(&json["pre_tokenizer"]) || mentions_byte_level(&json["decoder"]);
    // As the vocabulary writes a space and a line's end.
    let (space, line) = if byte_level { ('Ġ', 'Ċ') } else { ('▁', '\n') };
    let mut mask = 7;
    match &json["model"]["vocab"] {
        Json::Object(vocab) => vocab.keys().for_each(|t| mask &= unbroken(t, space, line, byte_level)),
        Json::Array(vocab) => {
            vocab.iter().filter_map(|t| t[0].as_str()).for_each(|t| mask &= unbroken(t, space, line, byte_level))
        }
        _ => return 0,
    }
    for added in json["added_tokens"].as_array().into_iter().flatten() {
        mask &= unbroken(added["content"].as_str().unwrap_or_default(), ' ', '\n', false);
        // Such a token takes the space beside it, or looks at the letter there.
        if ["lstrip", "rstrip", "single_word"].iter().any(|flag| added[*flag].as_bool().unwrap_or(false)) {
            return 0;
        }
    }
    mask
}

fn unbroken(token: &str, space: char, line: char, byte_level: bool) -> u32 {
    let chars: Vec<char> = token.chars().collect();
    let blank = |c: char| c.is_whitespace() || byte_level && "ĠĊĉč".contains(c) || c == space;
    // In a byte-level vocabulary any other character may be the first byte of a letter.
    let letter = |c: char| !blank(c) && (c.is_alphabetic() || byte_level && !c.is_ascii());
    let mut mask = 7;
    for w in chars.windows(3).filter(|w| !blank(w[0]) && letter(w[2])) {
        mask &= !(u32::from(w[1] == space) | u32::from(w[1] == line) << 1);
    }
    if !byte_level && chars.windows(2).any(|w| letter(w[0]) && "。，、！？".contains(w[1])) {
        mask &= !4;
    }
    mask
}

fn mentions_byte_level(part: &Json) -> bool {
    part.to_string().contains("\"ByteLevel\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_with_a_space_inside_forbids_cuts_there() {
        let vocab = |token: &str| serde_json::json!({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {token: 1}}});
        assert_eq!(cuts(&vocab("Ġthe")), 7);
        assert_eq!(cuts(&vocab("ĠĠĠthe")), 7);
        assert_eq!(cuts(&vocab("čĊč")), 7);
        assert_eq!(cuts(&vocab("ofĠthe")), 6);
        assert_eq!(cuts(&vocab(";Ċx")), 5);
        let plain = serde_json::json!({"model": {"vocab": {"的，": 1}}, "added_tokens": [{"content": "<a b>"}]});
        assert_eq!(cuts(&plain), 2);
        let eager = serde_json::json!({"model": {"vocab": {}}, "added_tokens": [{"content": "<m>", "lstrip": true}]});
        assert_eq!(cuts(&eager), 0);
    }
}
