//! What a chat template does with the text of a message, read from its syntax tree: whether it wants
//! content as a list of parts, and which strings it looks for in texts.

use std::collections::BTreeSet;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt};
use minijinja::machinery::{parse, WhitespaceConfig};
use minijinja::value::Value;

#[derive(Default, Debug)]
pub struct Analysis {
    /// Loops over a message's content: it is given as parts, as vLLM does.
    pub wants_parts: bool,
    /// A text without any of these is treated like any other text of its kind.
    pub literals: BTreeSet<String>,
    /// It may look for strings that are not known before it runs.
    pub opaque: bool,
}

pub fn whitespace() -> WhitespaceConfig {
    WhitespaceConfig { trim_blocks: true, lstrip_blocks: true, ..WhitespaceConfig::default() }
}

pub fn analyse(source: &str) -> Analysis {
    let mut found = Analysis::default();
    match parse(source, "chat", Default::default(), whitespace()) {
        Ok(root) => found.stmt(&root),
        Err(_) => found.opaque = true,
    }
    found
}

/// Methods whose arguments are no text that is looked for in a text.
const HARMLESS: [&str; 12] = [
    "get", "items", "keys", "values", "append", "join", "format", "upper", "lower", "title", "capitalize", "splitlines",
];
const STRIPPING: [&str; 4] = ["strip", "lstrip", "rstrip", "trim"];
const SEARCHING_FILTERS: [&str; 4] = ["replace", "split", "trim", "wordwrap"];

impl Analysis {
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Template(t) => self.body(&t.children),
            Stmt::EmitExpr(e) => self.expr(&e.expr),
            Stmt::ForLoop(l) => {
                if is_content(&l.iter) {
                    self.wants_parts = true;
                }
                self.expr(&l.iter);
                if let Some(filter) = &l.filter_expr {
                    self.expr(filter);
                }
                self.body(&l.body);
                self.body(&l.else_body);
            }
            Stmt::IfCond(c) => {
                self.expr(&c.expr);
                self.body(&c.true_body);
                self.body(&c.false_body);
            }
            Stmt::WithBlock(w) => {
                w.assignments.iter().for_each(|(_, e)| self.expr(e));
                self.body(&w.body);
            }
            Stmt::Set(s) => self.expr(&s.expr),
            Stmt::SetBlock(s) => {
                if let Some(filter) = &s.filter {
                    self.expr(filter);
                }
                self.body(&s.body);
            }
            Stmt::AutoEscape(a) => self.body(&a.body),
            Stmt::FilterBlock(f) => {
                self.expr(&f.filter);
                self.body(&f.body);
            }
            Stmt::Block(b) => self.body(&b.body),
            Stmt::Macro(m) => {
                m.defaults.iter().for_each(|e| self.expr(e));
                self.body(&m.body);
            }
            Stmt::CallBlock(c) => {
                self.call(&c.call.expr, &c.call.args);
                self.body(&c.macro_decl.body);
            }
            Stmt::Do(d) => self.call(&d.call.expr, &d.call.args),
            _ => {}
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Slice(s) => {
                // Part of a text depends on all of it.
                self.opaque |= is_content(&s.expr);
                self.expr(&s.expr);
                [&s.start, &s.stop, &s.step].into_iter().flatten().for_each(|e| self.expr(e));
            }
            Expr::UnaryOp(u) => self.expr(&u.expr),
            Expr::BinOp(b) => {
                if matches!(b.op, BinOpKind::In) {
                    self.membership(&b.left, &b.right);
                }
                self.expr(&b.left);
                self.expr(&b.right);
            }
            Expr::Compare(c) => {
                let mut left = &c.expr;
                self.expr(left);
                for op in &c.ops {
                    use minijinja::machinery::ast::CompareOpKind;
                    if matches!(op.op, CompareOpKind::In | CompareOpKind::NotIn) {
                        self.membership(left, &op.expr);
                    }
                    self.expr(&op.expr);
                    left = &op.expr;
                }
            }
            Expr::IfExpr(i) => {
                self.expr(&i.test_expr);
                self.expr(&i.true_expr);
                if let Some(e) = &i.false_expr {
                    self.expr(e);
                }
            }
            Expr::Filter(f) => {
                if let Some(e) = &f.expr {
                    self.expr(e);
                }
                if SEARCHING_FILTERS.contains(&f.name) {
                    self.searched(f.name, &f.args);
                }
                self.args(&f.args);
            }
            Expr::Test(t) => {
                self.expr(&t.expr);
                if matches!(t.name, "startingwith" | "endingwith" | "containing") {
                    self.searched(t.name, &t.args);
                }
                if t.name == "in" {
                    self.searched_in(&t.expr);
                }
                self.args(&t.args);
            }
            Expr::GetAttr(g) => self.expr(&g.expr),
            Expr::GetItem(g) => {
                self.expr(&g.expr);
                self.expr(&g.subscript_expr);
            }
            Expr::Call(c) => self.call(&c.expr, &c.args),
            Expr::List(l) => l.items.iter().for_each(|e| self.expr(e)),
            Expr::Map(m) => m.keys.iter().chain(&m.values).for_each(|e| self.expr(e)),
            Expr::Var(_) | Expr::Const(_) => {}
        }
    }

    fn args(&mut self, args: &[CallArg]) {
        for arg in args {
            match arg {
                CallArg::Pos(e) | CallArg::Kwarg(_, e) | CallArg::PosSplat(e) | CallArg::KwargSplat(e) => self.expr(e),
            }
        }
    }

    fn call(&mut self, callee: &Expr, args: &[CallArg]) {
        if let Expr::GetAttr(method) = callee {
            if !HARMLESS.contains(&method.name) {
                self.searched(method.name, args);
            }
            self.expr(&method.expr);
        } else {
            self.expr(callee);
        }
        self.args(args);
    }

    /// `left in right`: only a constant string can be looked for in a text; a variable on the left is
    /// taken for a member of a list unless the right side is content.
    fn membership(&mut self, left: &Expr, right: &Expr) {
        match left.as_const() {
            Some(value) => self.literal("in", &value),
            None if is_content(right) => self.opaque = true,
            None => {}
        }
    }

    fn searched_in(&mut self, needle: &Expr) {
        if let Some(value) = needle.as_const() {
            self.literal("in", &value);
        }
    }

    fn searched(&mut self, method: &str, args: &[CallArg]) {
        for arg in args {
            let (CallArg::Pos(e) | CallArg::Kwarg(_, e)) = arg else {
                self.opaque = true;
                continue;
            };
            match e.as_const() {
                Some(value) => self.literal(method, &value),
                None => self.opaque = true,
            }
        }
    }

    fn literal(&mut self, method: &str, value: &Value) {
        // A list of alternatives, as startswith takes, or a number of splits.
        let Some(text) = value.as_str() else {
            if let Ok(items) = value.try_iter() {
                items.for_each(|item| self.literal(method, &item));
            }
            return;
        };
        let blank = text.chars().all(char::is_whitespace);
        if STRIPPING.contains(&method) {
            // White space at a text's ends is kept beside it; other characters count wherever they are.
            text.chars().filter(|c| !c.is_whitespace()).for_each(|c| {
                self.literals.insert(c.to_string());
            });
        } else if blank {
            // Nearly every text has white space inside. An empty string is in all of them alike.
            self.opaque |= !text.is_empty() || method == "split" || method == "replace";
        } else {
            // White space at a text's ends is kept beside it, so the literal may lie across that border.
            self.literals.insert(text.trim().to_owned());
        }
    }
}

/// `message.content`, `message['content']` or a variable of that name.
fn is_content(expr: &Expr) -> bool {
    match expr {
        Expr::Var(v) => v.id == "content",
        Expr::GetAttr(g) => g.name == "content",
        Expr::GetItem(g) => g.subscript_expr.as_const().is_some_and(|v| v.as_str() == Some("content")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_looked_for() {
        let found = analyse(
            "{% for m in messages %}{% if m.role == 'user' and '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}\
             {% elif m.content.startswith('<tool>') and m.role in ['a', 'b'] %}x{% endif %}{{ m.content | trim }}{% endfor %}",
        );
        assert_eq!(found.literals.iter().map(String::as_str).collect::<Vec<_>>(), ["</think>", "<tool>"]);
        assert!(!found.opaque && !found.wants_parts);
        assert!(analyse("{% for c in message['content'] %}{{ c }}{% endfor %}").wants_parts);
        assert!(analyse("{{ m.content.split('\\n')[0] }}").opaque);
        assert!(analyse("{{ m.content.split(x)[0] }}").opaque);
        assert!(analyse("{{ m.content[:100] }}").opaque);
        let found = analyse("{% if m.content.startswith('\\n<tool>\\n') %}x{% endif %}");
        assert_eq!(found.literals.iter().map(String::as_str).collect::<Vec<_>>(), ["<tool>"]);
        assert!(analyse("{% if").opaque);
    }
}
