//! The tree of a parsed template. Nodes know where they stand in the text and how Go shows them in messages.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// One template: the body of a file, of a `define` or of a `block`.
#[derive(Debug)]
pub(crate) struct Tree {
    pub name: Arc<str>,
    /// The name of the text it was in: what messages name.
    pub parse_name: Arc<str>,
    pub text: Arc<str>,
    pub root: Vec<Node>,
}

impl Tree {
    /// `NAME:LINE:COLUMN` of a position.
    pub fn location(&self, pos: usize) -> String {
        let before = &self.text.as_bytes()[..pos.min(self.text.len())];
        let line = 1 + before.iter().filter(|it| **it == b'\n').count();
        let column = match before.iter().rposition(|it| *it == b'\n') {
            Some(at) => before.len() - at - 1,
            None => before.len(),
        };
        format!("{}:{line}:{column}", self.parse_name)
    }

    pub fn is_empty(&self) -> bool {
        self.root.iter().all(|it| match it {
            Node::Text(_, text) => text.trim().is_empty(),
            _ => false,
        })
    }
}

#[derive(Debug)]
pub(crate) enum Node {
    Text(usize, Arc<str>),
    Action(usize, Pipe),
    Branch(Box<Branch>),
    Template(usize, Arc<str>, Option<Pipe>),
    Break(usize),
    Continue(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BranchKind {
    If,
    Range,
    With,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub kind: BranchKind,
    pub pos: usize,
    pub pipe: Pipe,
    pub body: Vec<Node>,
    pub other: Option<Vec<Node>>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub pos: usize,
    pub assigns: bool,
    pub variables: Vec<Arc<str>>,
    pub commands: Vec<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub pos: usize,
    pub args: Vec<Arg>,
}

#[derive(Debug)]
pub(crate) struct Arg {
    pub pos: usize,
    pub kind: ArgKind,
}

#[derive(Debug)]
pub(crate) enum ArgKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    /// As it was written, and what it means.
    Str(Arc<str>, Literal),
    Field(Vec<Arc<str>>),
    Variable(Vec<Arc<str>>),
    Identifier(Arc<str>),
    Chain(Box<Arg>, Vec<Arc<str>>),
    Pipe(Box<Pipe>),
}

/// What a string constant means.
#[derive(Debug)]
pub(crate) enum Literal {
    Str(Arc<str>),
    Binary(Arc<[u8]>),
}

/// A number with all the types that can hold it: Go's ideal constant.
#[derive(Debug)]
pub(crate) struct Number {
    pub text: Arc<str>,
    pub int: Option<i64>,
    pub uint: Option<u64>,
    pub float: Option<f64>,
    pub complex: bool,
}

impl Node {
    pub fn pos(&self) -> usize {
        match self {
            Node::Text(pos, _)
            | Node::Action(pos, _)
            | Node::Template(pos, ..)
            | Node::Break(pos)
            | Node::Continue(pos) => *pos,
            Node::Branch(branch) => branch.pos,
        }
    }
}

impl Display for Node {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Node::Text(_, text) => write!(out, "{}", crate::strconv::quote(text)),
            Node::Action(_, pipe) => write!(out, "{{{{{pipe}}}}}"),
            Node::Branch(branch) => branch.fmt(out),
            Node::Template(_, name, pipe) => {
                write!(out, "{{{{template {}", crate::strconv::quote(name))?;
                if let Some(pipe) = pipe {
                    write!(out, " {pipe}")?;
                }
                out.write_str("}}")
            }
            Node::Break(_) => out.write_str("{{break}}"),
            Node::Continue(_) => out.write_str("{{continue}}"),
        }
    }
}

impl Display for Branch {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            BranchKind::If => "if",
            BranchKind::Range => "range",
            BranchKind::With => "with",
        };
        write!(out, "{{{{{name} {}}}}}", self.pipe)?;
        for node in &self.body {
            node.fmt(out)?;
        }
        if let Some(other) = &self.other {
            out.write_str("{{else}}")?;
            for node in other {
                node.fmt(out)?;
            }
        }
        out.write_str("{{end}}")
    }
}

impl Display for Pipe {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            out.write_str(&self.variables.join(", "))?;
            out.write_str(if self.assigns { " = " } else { " := " })?;
        }
        for (at, command) in self.commands.iter().enumerate() {
            if at > 0 {
                out.write_str(" | ")?;
            }
            command.fmt(out)?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (at, arg) in self.args.iter().enumerate() {
            if at > 0 {
                out.write_str(" ")?;
            }
            match &arg.kind {
                ArgKind::Pipe(pipe) => write!(out, "({pipe})")?,
                _ => arg.fmt(out)?,
            }
        }
        Ok(())
    }
}

impl Display for Arg {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ArgKind::Dot => out.write_str("."),
            ArgKind::Nil => out.write_str("nil"),
            ArgKind::Bool(value) => write!(out, "{value}"),
            ArgKind::Number(number) => out.write_str(&number.text),
            ArgKind::Str(quoted, _) => out.write_str(quoted),
            ArgKind::Field(names) => names.iter().try_for_each(|name| write!(out, ".{name}")),
            ArgKind::Variable(names) => out.write_str(&names.join(".")),
            ArgKind::Identifier(name) => out.write_str(name),
            ArgKind::Chain(inner, names) => {
                match &inner.kind {
                    ArgKind::Pipe(pipe) => write!(out, "({pipe})")?,
                    _ => inner.fmt(out)?,
                }
                names.iter().try_for_each(|name| write!(out, ".{name}"))
            }
            ArgKind::Pipe(pipe) => pipe.fmt(out),
        }
    }
}
