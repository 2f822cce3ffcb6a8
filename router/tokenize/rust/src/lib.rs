//! Tokens and chat templates of a model, behind the C ABI of ember_tokens.h. No panic crosses it.

mod analysis;
mod members;
mod messages;
mod pyjson;
mod responses;
mod template;
mod tokens;

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use messages::Api;

/// Why there is no text, as in ember_tokens.h.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
pub enum Reason {
    Invalid = 1,
    NoTemplate = 2,
    Template = 3,
    RequestTemplate = 4,
    Unsupported = 5,
    Stateful = 6,
    Panic = 7,
}

pub struct Model {
    tokens: tokens::Tokens,
    template: Option<template::ChatTemplate>,
    literals: Vec<u8>, // each ended by a zero byte
}

#[repr(C)]
pub struct Properties {
    fast: u32,
    cuts: u32,
    ids: u32,
    has_template: u32,
    opaque: u32,
    uses_time: u32,
    literals: *const u8,
    literals_length: usize,
    before: *const u32,
    before_count: usize,
    after: *const u32,
    after_count: usize,
}

#[derive(Default)]
struct Scratch {
    ids: Vec<u32>,
    text: String,
}

thread_local! {
    /// What the last call on this thread gave; its bytes stay until the next.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fn guarded<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

fn keep_text(text: String, out: *mut *const u8, length: *mut usize) {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.text = text;
        // SAFETY: the caller's own variables.
        unsafe {
            *out = scratch.text.as_ptr();
            *length = scratch.text.len();
        }
    });
}

/// # Safety
/// `data` points to `length` bytes.
unsafe fn text_of<'a>(data: *const u8, length: usize) -> Option<&'a str> {
    if length == 0 {
        return Some("");
    }
    std::str::from_utf8(std::slice::from_raw_parts(data, length)).ok()
}

fn load(path: &Path, keep_reference: bool) -> Result<Model, String> {
    // Panics are turned into failures here; their text on stderr would be noise of the proof.
    std::panic::set_hook(Box::new(|_| {}));
    let folder = path.is_dir();
    let file = if folder { path.join("tokenizer.json") } else { path.to_owned() };
    let tokens = tokens::Tokens::load(&file, keep_reference)?;
    let template = if folder { template::ChatTemplate::load(path)? } else { None };
    let mut literals = Vec::new();
    for literal in template.iter().flat_map(|t| &t.analysis.literals) {
        literals.extend_from_slice(literal.as_bytes());
        literals.push(0);
    }
    Ok(Model { tokens, template, literals })
}

/// # Safety
/// As ember_tokens.h says.
#[no_mangle]
pub unsafe extern "C" fn ember_tokens_load(
    path: *const u8,
    path_length: usize,
    keep_reference: u32,
    error: *mut *const u8,
    error_length: *mut usize,
) -> *mut Model {
    let made = guarded(Err("the tokenizer library panicked".to_owned()), || {
        let path = text_of(path, path_length).ok_or("the path is not UTF-8")?;
        load(Path::new(path), keep_reference != 0)
    });
    match made {
        Ok(model) => Box::into_raw(Box::new(model)),
        Err(why) => {
            keep_text(why, error, error_length);
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// As ember_tokens.h says.
#[no_mangle]
pub unsafe extern "C" fn ember_tokens_free(model: *mut Model) {
    guarded((), || drop(Box::from_raw(model)));
}

/// # Safety
/// As ember_tokens.h says.
#[no_mangle]
pub unsafe extern "C" fn ember_tokens_properties(model: *const Model, out: *mut Properties) {
    let model = &*model;
    let template = model.template.as_ref();
    *out = Properties {
        fast: model.tokens.is_fast().into(),
        cuts: model.tokens.cuts,
        ids: model.tokens.ids,
        has_template: template.is_some().into(),
        opaque: template.is_some_and(|t| t.analysis.opaque).into(),
        uses_time: template.is_some_and(|t| t.uses_time).into(),
        literals: model.literals.as_ptr(),
        literals_length: model.literals.len(),
        before: model.tokens.before.as_ptr(),
        before_count: model.tokens.before.len(),
        after: model.tokens.after.as_ptr(),
        after_count: model.tokens.after.len(),
    };
}

/// # Safety
/// As ember_tokens.h says.
#[no_mangle]
pub unsafe extern "C" fn ember_tokens_encode(
    model: *const Model,
    text: *const u8,
    text_length: usize,
    by_reference: u32,
    ids: *mut *const u32,
    count: *mut usize,
) -> u32 {
    let made = guarded(Err(Reason::Panic), || {
        let text = text_of(text, text_length).ok_or(Reason::Invalid)?;
        (*model).tokens.encode(text, by_reference != 0).ok_or(Reason::Unsupported)
    });
    match made {
        Ok(made) => {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.ids = made;
                *ids = scratch.ids.as_ptr();
                *count = scratch.ids.len();
            });
            0
        }
        Err(reason) => reason as u32,
    }
}

/// # Safety
/// As ember_tokens.h says.
#[no_mangle]
pub unsafe extern "C" fn ember_tokens_render(
    model: *const Model,
    api: u32,
    request: *const u8,
    request_length: usize,
    text: *mut *const u8,
    text_length: *mut usize,
    cut: *mut u32,
) -> u32 {
    let made = guarded(Err(Reason::Panic), || {
        let json = text_of(request, request_length).ok_or(Reason::Invalid)?;
        let request = serde_json::from_str(json).map_err(|_| Reason::Invalid)?;
        if pyjson::has_large_integers(json) {
            return Err(Reason::Unsupported);
        }
        let template = (*model).template.as_ref().ok_or(Reason::NoTemplate)?;
        let api = match api {
            0 => Api::Chat,
            1 => Api::Responses,
            2 => Api::Anthropic,
            _ => return Err(Reason::Unsupported),
        };
        template.render(api, request)
    });
    match made {
        Ok(rendered) => {
            *cut = rendered.cut.into();
            keep_text(rendered.text, text, text_length);
            0
        }
        Err(reason) => reason as u32,
    }
}
