//! Cuts the text of a template into items, as Go's text/template/parse does, line for line and error for error.

use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenKind {
    Error,
    Bool,
    Char,
    CharConstant,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Complex,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    // Keywords: printed as such in messages.
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl TokenKind {
    fn is_keyword(self) -> bool {
        use TokenKind::*;
        matches!(
            self,
            Block | Break | Continue | Dot | Define | Else | End | If | Nil | Range | Template | With
        )
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub kind: TokenKind,
    /// Where in the text the item starts, in bytes.
    pub pos: usize,
    pub text: String,
    pub line: usize,
}

impl Item {
    /// As Go shows an item in a message.
    pub fn show(&self) -> String {
        match self.kind {
            TokenKind::Eof => "EOF".to_owned(),
            TokenKind::Error => self.text.clone(),
            kind if kind.is_keyword() => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                let bytes = self.text.as_bytes();
                format!("{}...", crate::strconv::quote_bytes(&bytes[..10]))
            }
            _ => crate::strconv::quote(&self.text),
        }
    }
}

const SPACES: &[char] = &[' ', '\t', '\r', '\n'];

pub(crate) struct Lexer<'a> {
    input: &'a str,
    left: &'a str,
    right: &'a str,
    pos: usize,
    start: usize,
    line: usize,
    start_line: usize,
    inside: bool,
    parens: usize,
    ready: VecDeque<Item>,
    failed: bool,
}

fn is_space(it: char) -> bool {
    SPACES.contains(&it)
}

// Go's letters and digits, near enough.
fn is_alphanumeric(it: char) -> bool {
    it == '_' || it.is_alphanumeric()
}

fn trims_left(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('-') && chars.next().is_some_and(is_space)
}

fn trims_right(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(is_space) && chars.next() == Some('-')
}

impl<'a> Lexer<'a> {
    pub fn new(input: &'a str, left: &'a str, right: &'a str) -> Self {
        Lexer {
            input,
            left: if left.is_empty() { "{{" } else { left },
            right: if right.is_empty() { "}}" } else { right },
            pos: 0,
            start: 0,
            line: 1,
            start_line: 1,
            inside: false,
            parens: 0,
            ready: VecDeque::new(),
            failed: false,
        }
    }

    pub fn next_item(&mut self) -> Item {
        while self.ready.is_empty() {
            if self.failed {
                return Item {
                    kind: TokenKind::Eof,
                    pos: self.start,
                    text: "EOF".to_owned(),
                    line: self.start_line,
                };
            }
            if self.inside { self.inside_action() } else { self.text() }
        }
        self.ready
            .pop_front()
            .expect("an item is ready: the loop above ends with one")
    }

    fn rest(&self) -> &'a str {
        &self.input[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let it = self.peek()?;
        self.pos += it.len_utf8();
        if it == '\n' {
            self.line += 1;
        }
        Some(it)
    }

    fn emit(&mut self, kind: TokenKind) {
        let text = self.input[self.start..self.pos].to_owned();
        self.ready.push_back(Item {
            kind,
            pos: self.start,
            text,
            line: self.start_line,
        });
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn ignore(&mut self) {
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn advance(&mut self, to: usize) {
        self.line += self.input[self.pos..to].matches('\n').count();
        self.pos = to;
    }

    fn fail(&mut self, message: String) {
        self.ready.push_back(Item {
            kind: TokenKind::Error,
            pos: self.start,
            text: message,
            line: self.start_line,
        });
        self.failed = true;
    }

    fn text(&mut self) {
        let Some(at) = self.rest().find(self.left) else {
            self.advance(self.input.len());
            if self.pos > self.start {
                self.emit(TokenKind::Text);
            }
            if self.ready.is_empty() {
                self.emit(TokenKind::Eof);
            }
            return;
        };
        if at > 0 {
            let end = self.pos + at;
            let mut text_end = end;
            if trims_left(&self.input[end + self.left.len()..]) {
                text_end = self.start + self.input[self.start..end].trim_end_matches(SPACES).len();
            }
            self.advance(text_end);
            if self.pos > self.start {
                self.emit(TokenKind::Text);
            }
            self.advance(end);
            self.ignore();
        }
        self.left_delim();
    }

    fn left_delim(&mut self) {
        self.pos += self.left.len();
        let marker = if trims_left(self.rest()) { 2 } else { 0 };
        if self.input[self.pos + marker..].starts_with("/*") {
            self.advance(self.pos + marker);
            self.ignore();
            return self.comment();
        }
        self.emit(TokenKind::LeftDelim);
        self.inside = true;
        self.advance(self.pos + marker);
        self.ignore();
        self.parens = 0;
    }

    fn comment(&mut self) {
        let Some(end) = self.input[self.pos + 2..].find("*/") else {
            return self.fail("unclosed comment".to_owned());
        };
        self.advance(self.pos + 2 + end + 2);
        let Some(trim) = self.at_right_delim() else {
            return self.fail("comment ends before closing delimiter".to_owned());
        };
        self.after_right_delim(trim);
        self.ignore();
    }

    /// Whether the text goes on with the closing delimiter, and then whether it has a trim marker.
    fn at_right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if trims_right(rest) && rest[2..].starts_with(self.right) {
            return Some(true);
        }
        rest.starts_with(self.right).then_some(false)
    }

    fn after_right_delim(&mut self, trim: bool) {
        let marker = if trim { 2 } else { 0 };
        self.advance(self.pos + marker + self.right.len());
        if trim {
            let trimmed = self.rest().trim_start_matches(SPACES);
            self.advance(self.input.len() - trimmed.len());
        }
    }

    fn right_delim(&mut self, trim: bool) {
        if trim {
            self.advance(self.pos + 2);
            self.ignore();
        }
        self.pos += self.right.len();
        self.emit(TokenKind::RightDelim);
        if trim {
            let trimmed = self.rest().trim_start_matches(SPACES);
            self.advance(self.input.len() - trimmed.len());
            self.ignore();
        }
        self.inside = false;
    }

    fn inside_action(&mut self) {
        if let Some(trim) = self.at_right_delim() {
            if self.parens == 0 {
                return self.right_delim(trim);
            }
            return self.fail("unclosed left paren".to_owned());
        }
        let Some(it) = self.bump() else {
            return self.fail("unclosed action".to_owned());
        };
        match it {
            it if is_space(it) => self.space(),
            '=' => self.emit(TokenKind::Assign),
            ':' => {
                if self.bump() != Some('=') {
                    return self.fail("expected :=".to_owned());
                }
                self.emit(TokenKind::Declare);
            }
            '|' => self.emit(TokenKind::Pipe),
            '"' => self.quoted('"', TokenKind::String, "unterminated quoted string"),
            '\'' => self.quoted('\'', TokenKind::CharConstant, "unterminated character constant"),
            '`' => self.raw_quoted(),
            '$' => self.field_or_variable(TokenKind::Variable),
            '.' if !self.rest().is_empty() && !self.rest().starts_with(|it: char| it.is_ascii_digit()) => {
                self.field_or_variable(TokenKind::Field);
            }
            '.' | '+' | '-' | '0'..='9' => self.number(),
            it if is_alphanumeric(it) => self.identifier(),
            '(' => {
                self.parens += 1;
                self.emit(TokenKind::LeftParen);
            }
            ')' => {
                if self.parens == 0 {
                    return self.fail("unexpected right paren".to_owned());
                }
                self.parens -= 1;
                self.emit(TokenKind::RightParen);
            }
            it if it.is_ascii() && !it.is_ascii_control() => self.emit(TokenKind::Char),
            it => self.fail(format!("unrecognized character in action: {}", unicode(it))),
        }
    }

    fn space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.bump();
        }
        // The last space may belong to a trim marker.
        let last = self.pos - 1;
        if trims_right(&self.input[last..]) && self.input[last + 2..].starts_with(self.right) {
            if self.input.as_bytes()[last] == b'\n' {
                self.line -= 1;
            }
            self.pos = last;
            if self.pos == self.start {
                return self.right_delim(true);
            }
        }
        self.emit(TokenKind::Space);
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(it) => is_space(it) || self.rest().starts_with(self.right),
        }
    }

    fn identifier(&mut self) {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match &self.input[self.start..self.pos] {
            "block" => TokenKind::Block,
            "break" => TokenKind::Break,
            "continue" => TokenKind::Continue,
            "define" => TokenKind::Define,
            "else" => TokenKind::Else,
            "end" => TokenKind::End,
            "if" => TokenKind::If,
            "nil" => TokenKind::Nil,
            "range" => TokenKind::Range,
            "template" => TokenKind::Template,
            "with" => TokenKind::With,
            "true" | "false" => TokenKind::Bool,
            _ => TokenKind::Identifier,
        };
        self.emit(kind);
    }

    fn field_or_variable(&mut self, kind: TokenKind) {
        if self.at_terminator() {
            return self.emit(if kind == TokenKind::Variable {
                kind
            } else {
                TokenKind::Dot
            });
        }
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.emit(kind);
    }

    fn bad_character(&mut self) {
        let it = self.peek().map_or_else(String::new, unicode);
        self.fail(format!("bad character {it}"));
    }

    fn quoted(&mut self, mark: char, kind: TokenKind, unterminated: &str) {
        loop {
            match self.bump() {
                Some('\\') => {
                    if let None | Some('\n') = self.bump() {
                        return self.fail(unterminated.to_owned());
                    }
                }
                None | Some('\n') => return self.fail(unterminated.to_owned()),
                Some(it) if it == mark => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_quoted(&mut self) {
        loop {
            match self.bump() {
                None => return self.fail("unterminated raw quoted string".to_owned()),
                Some('`') => return self.emit(TokenKind::RawString),
                Some(_) => {}
            }
        }
    }

    fn number(&mut self) {
        self.pos = self.start;
        let mut kind = TokenKind::Number;
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || self.input.as_bytes()[self.pos - 1] != b'i' {
                return self.bad_number();
            }
            kind = TokenKind::Complex;
        }
        self.emit(kind);
    }

    fn bad_number(&mut self) {
        let text = crate::strconv::quote(&self.input[self.start..self.pos]);
        self.fail(format!("bad number syntax: {text}"));
    }

    fn accept(&mut self, valid: &str) -> bool {
        let found = self.peek().is_some_and(|it| valid.contains(it));
        if found {
            self.bump();
        }
        found
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if digits.len() == 11 && self.accept("eE") || digits.len() == 23 && self.accept("pP") {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }
}

/// Go's `%#U`.
fn unicode(it: char) -> String {
    let code = it as u32;
    if crate::strconv::is_print(it) {
        format!("U+{code:04X} '{it}'")
    } else {
        format!("U+{code:04X}")
    }
}
