//! Makes trees of the items of a template, with the messages of Go's text/template/parse.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lex::{Item, Lexer, TokenKind};
use crate::limits::{NESTING_MAX, with_stack};
use crate::node::{Arg, ArgKind, Branch, BranchKind, Command, Literal, Node, Number, Pipe, Tree};

pub(crate) type Trees = BTreeMap<Arc<str>, Arc<Tree>>;

/// How to read a text.
pub(crate) struct TemplateText<'a> {
    pub name: &'a str,
    pub text: &'a str,
    pub left: &'a str,
    pub right: &'a str,
    /// Whether there is a function of this name: a template that calls another is refused as a whole.
    pub has_function: &'a dyn Fn(&str) -> bool,
}

/// All templates that the text defines; its own body comes last.
pub(crate) fn parse(source: &TemplateText<'_>) -> Result<Vec<Arc<Tree>>, String> {
    let mut parser = Parser {
        source,
        parse_name: source.name.into(),
        text: source.text.into(),
        lexer: Lexer::new(source.text, source.left, source.right),
        pushed: Vec::new(),
        line: 1,
        made: Vec::new(),
        scope: Scope::default(),
    };
    parser.whole()?;
    Ok(parser.made)
}

/// Adds trees to a set, as Go does: an empty body never replaces one that is there.
pub(crate) fn add(set: &mut Trees, trees: Vec<Arc<Tree>>) {
    for tree in trees {
        match set.get(&tree.name) {
            Some(there) if tree.is_empty() && !there.is_empty() => {}
            _ => {
                set.insert(tree.name.clone(), tree);
            }
        }
    }
}

/// What starts anew with every `define` and `block`.
struct Scope {
    variables: Vec<Arc<str>>,
    ranges: usize,
    nesting: usize,
    action_line: usize,
}

impl Default for Scope {
    fn default() -> Self {
        Scope {
            variables: vec!["$".into()],
            ranges: 0,
            nesting: 0,
            action_line: 0,
        }
    }
}

/// What ends a list of nodes.
enum Ending {
    End,
    Else,
}

enum Parsed {
    Node(Node),
    Ending(Ending),
}

impl Ending {
    fn show(&self) -> &'static str {
        match self {
            Ending::End => "{{end}}",
            Ending::Else => "{{else}}",
        }
    }
}

struct Parser<'a> {
    source: &'a TemplateText<'a>,
    parse_name: Arc<str>,
    text: Arc<str>,
    lexer: Lexer<'a>,
    /// Items that were read and given back; the last is next.
    pushed: Vec<Item>,
    line: usize,
    made: Vec<Arc<Tree>>,
    scope: Scope,
}

type Parse<T> = Result<T, String>;

impl Parser<'_> {
    fn next(&mut self) -> Item {
        self.pushed.pop().unwrap_or_else(|| {
            let item = self.lexer.next_item();
            self.line = item.line;
            item
        })
    }

    fn back(&mut self, item: Item) {
        self.pushed.push(item);
    }

    fn peek(&mut self) -> (TokenKind, usize) {
        let item = self.next();
        let seen = (item.kind, item.pos);
        self.back(item);
        seen
    }

    fn next_non_space(&mut self) -> Item {
        loop {
            let item = self.next();
            if item.kind != TokenKind::Space {
                return item;
            }
        }
    }

    fn peek_non_space(&mut self) -> (TokenKind, usize) {
        let item = self.next_non_space();
        let seen = (item.kind, item.pos);
        self.back(item);
        seen
    }

    fn error<T>(&self, message: impl std::fmt::Display) -> Parse<T> {
        Err(format!("template: {}:{}: {message}", self.parse_name, self.line))
    }

    fn unexpected<T>(&self, item: &Item, context: &str) -> Parse<T> {
        if item.kind == TokenKind::Error {
            let started = self.scope.action_line;
            let mut extra = String::new();
            if started != 0 && started != item.line {
                extra = format!(" in action started at {}:{started}", self.parse_name);
                if item.text.ends_with(" action") {
                    extra = extra[" in action".len()..].to_owned();
                }
            }
            return self.error(format_args!("{}{extra}", item.text));
        }
        self.error(format_args!("unexpected {} in {context}", item.show()))
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> Parse<Item> {
        let item = self.next_non_space();
        if item.kind != kind {
            return self.unexpected(&item, context);
        }
        Ok(item)
    }

    fn whole(&mut self) -> Parse<()> {
        let mut root = Vec::new();
        loop {
            let item = self.next();
            match item.kind {
                TokenKind::Eof => break,
                TokenKind::LeftDelim => {
                    let next = self.next_non_space();
                    if next.kind == TokenKind::Define {
                        let outer = std::mem::take(&mut self.scope);
                        self.definition()?;
                        self.scope = outer;
                        continue;
                    }
                    self.back(next);
                    self.back(item);
                }
                _ => self.back(item),
            }
            match self.text_or_action()? {
                Parsed::Node(node) => root.push(node),
                Parsed::Ending(ending) => return self.error(format_args!("unexpected {}", ending.show())),
            }
        }
        let name: Arc<str> = self.source.name.into();
        self.finish(name, root)
    }

    fn finish(&mut self, name: Arc<str>, root: Vec<Node>) -> Parse<()> {
        let tree = Arc::new(Tree {
            name,
            parse_name: self.parse_name.clone(),
            text: self.text.clone(),
            root,
        });
        if let Some(at) = self.made.iter().position(|it| it.name == tree.name) {
            if !self.made[at].is_empty() {
                if tree.is_empty() {
                    return Ok(());
                }
                let name = crate::strconv::quote(&tree.name);
                return self.error(format_args!("template: multiple definition of template {name}"));
            }
            self.made.remove(at);
        }
        self.made.push(tree);
        Ok(())
    }

    fn definition(&mut self) -> Parse<()> {
        let context = "define clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, context)?;
        self.expect(TokenKind::RightDelim, context)?;
        let (root, ending) = self.list()?;
        if let Ending::Else = ending {
            return self.error(format_args!("unexpected {} in {context}", ending.show()));
        }
        self.finish(name, root)
    }

    fn list(&mut self) -> Parse<(Vec<Node>, Ending)> {
        self.scope.nesting += 1;
        if self.scope.nesting > NESTING_MAX {
            return self.error("blocks are nested too deeply");
        }
        let found = with_stack(|| {
            let mut nodes = Vec::new();
            while self.peek_non_space().0 != TokenKind::Eof {
                match self.text_or_action()? {
                    Parsed::Node(node) => nodes.push(node),
                    Parsed::Ending(ending) => return Ok((nodes, ending)),
                }
            }
            self.error("unexpected EOF")
        });
        self.scope.nesting -= 1;
        found
    }

    fn text_or_action(&mut self) -> Parse<Parsed> {
        let item = self.next_non_space();
        match item.kind {
            TokenKind::Text => Ok(Parsed::Node(Node::Text(item.pos, item.text.into()))),
            TokenKind::LeftDelim => {
                self.scope.action_line = item.line;
                let found = self.action();
                self.scope.action_line = 0;
                found
            }
            _ => self.unexpected(&item, "input"),
        }
    }

    fn action(&mut self) -> Parse<Parsed> {
        let item = self.next_non_space();
        let node = match item.kind {
            TokenKind::Block => self.block()?,
            TokenKind::Break | TokenKind::Continue => self.break_or_continue(&item)?,
            TokenKind::Else => return self.else_control(),
            TokenKind::End => {
                self.expect(TokenKind::RightDelim, "end")?;
                return Ok(Parsed::Ending(Ending::End));
            }
            TokenKind::If => self.control(BranchKind::If)?,
            TokenKind::Range => self.control(BranchKind::Range)?,
            TokenKind::With => self.control(BranchKind::With)?,
            TokenKind::Template => self.template()?,
            _ => {
                self.back(item);
                let pos = self.peek().1;
                Node::Action(pos, self.pipeline("command", TokenKind::RightDelim)?)
            }
        };
        Ok(Parsed::Node(node))
    }

    fn break_or_continue(&mut self, item: &Item) -> Parse<Node> {
        let name = &item.text;
        let next = self.next_non_space();
        if next.kind != TokenKind::RightDelim {
            return self.unexpected(&next, &format!("{{{{{name}}}}}"));
        }
        if self.scope.ranges == 0 {
            return self.error(format_args!("{{{{{name}}}}} outside {{{{range}}}}"));
        }
        Ok(match item.kind {
            TokenKind::Break => Node::Break(item.pos),
            _ => Node::Continue(item.pos),
        })
    }

    fn else_control(&mut self) -> Parse<Parsed> {
        // What follows an `else` may be the next condition; it is read by whoever the else belongs to.
        if !matches!(self.peek_non_space().0, TokenKind::If | TokenKind::With) {
            self.expect(TokenKind::RightDelim, "else")?;
        }
        Ok(Parsed::Ending(Ending::Else))
    }

    fn control(&mut self, kind: BranchKind) -> Parse<Node> {
        let context = match kind {
            BranchKind::If => "if",
            BranchKind::Range => "range",
            BranchKind::With => "with",
        };
        let variables = self.scope.variables.len();
        let pipe = self.pipeline(context, TokenKind::RightDelim)?;
        self.scope.ranges += usize::from(kind == BranchKind::Range);
        let (body, ending) = self.list()?;
        self.scope.ranges -= usize::from(kind == BranchKind::Range);
        let mut other = None;
        if let Ending::Else = ending {
            let next = self.peek().0;
            let chained =
                kind == BranchKind::If && next == TokenKind::If || kind == BranchKind::With && next == TokenKind::With;
            if chained {
                self.next();
                self.scope.nesting += 1;
                if self.scope.nesting > NESTING_MAX {
                    return self.error("blocks are nested too deeply");
                }
                other = Some(vec![with_stack(|| self.control(kind))?]);
                self.scope.nesting -= 1;
            } else {
                let (nodes, ending) = self.list()?;
                if let Ending::Else = ending {
                    return self.error(format_args!("expected end; found {}", ending.show()));
                }
                other = Some(nodes);
            }
        }
        self.scope.variables.truncate(variables);
        Ok(Node::Branch(Box::new(Branch {
            kind,
            pos: pipe.pos,
            pipe,
            body,
            other,
        })))
    }

    fn block(&mut self) -> Parse<Node> {
        let context = "block clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, context)?;
        let pipe = self.pipeline(context, TokenKind::RightDelim)?;
        let nesting = self.scope.nesting;
        let outer = std::mem::take(&mut self.scope);
        self.scope.nesting = nesting;
        let (root, ending) = self.list()?;
        if let Ending::Else = ending {
            return self.error(format_args!("unexpected {} in {context}", ending.show()));
        }
        self.finish(name.clone(), root)?;
        self.scope = outer;
        Ok(Node::Template(item.pos, name, Some(pipe)))
    }

    fn template(&mut self) -> Parse<Node> {
        let context = "template clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, context)?;
        let next = self.next_non_space();
        let pipe = if next.kind == TokenKind::RightDelim {
            None
        } else {
            self.back(next);
            Some(self.pipeline(context, TokenKind::RightDelim)?)
        };
        Ok(Node::Template(item.pos, name, pipe))
    }

    fn template_name(&mut self, item: &Item, context: &str) -> Parse<Arc<str>> {
        match item.kind {
            TokenKind::String | TokenKind::RawString => match crate::strconv::unquote(&item.text) {
                Some(name) => Ok(String::from_utf8_lossy(&name).into()),
                None => self.error("invalid syntax"),
            },
            _ => self.unexpected(item, context),
        }
    }

    fn pipeline(&mut self, context: &str, end: TokenKind) -> Parse<Pipe> {
        let mut pipe = Pipe {
            pos: self.peek_non_space().1,
            assigns: false,
            variables: Vec::new(),
            commands: Vec::new(),
        };
        self.declarations(&mut pipe, context)?;
        loop {
            let item = self.next_non_space();
            match item.kind {
                kind if kind == end => break,
                TokenKind::Bool
                | TokenKind::CharConstant
                | TokenKind::Complex
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::RawString
                | TokenKind::String
                | TokenKind::Variable
                | TokenKind::LeftParen => {
                    self.back(item);
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return self.unexpected(&item, context),
            }
        }
        if pipe.commands.is_empty() {
            return self.error(format_args!("missing value for {context}"));
        }
        for (at, command) in pipe.commands.iter().enumerate().skip(1) {
            use ArgKind::{Bool, Dot, Nil, Number, Str};
            if let Bool(_) | Dot | Nil | Number(_) | Str(..) = command.args[0].kind {
                return self.error(format_args!("non executable command in pipeline stage {}", at + 1));
            }
        }
        Ok(pipe)
    }

    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parse<()> {
        loop {
            if self.peek_non_space().0 != TokenKind::Variable {
                return Ok(());
            }
            let variable = self.next_non_space();
            let after = self.next();
            let next = if after.kind == TokenKind::Space {
                self.next_non_space()
            } else {
                after.clone()
            };
            match next.kind {
                TokenKind::Assign | TokenKind::Declare => {
                    pipe.assigns = next.kind == TokenKind::Assign;
                    self.declare(pipe, &variable);
                    return Ok(());
                }
                TokenKind::Char if next.text == "," => {
                    self.declare(pipe, &variable);
                    if context == "range" && pipe.variables.len() < 2 {
                        match self.peek_non_space().0 {
                            TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen => continue,
                            _ => return self.error("range can only initialize variables"),
                        }
                    }
                    return self.error(format_args!("too many declarations in {context}"));
                }
                _ => {
                    let spaced = after.kind == TokenKind::Space;
                    self.back(next);
                    if spaced {
                        self.back(after);
                    }
                    self.back(variable);
                    return Ok(());
                }
            }
        }
    }

    fn declare(&mut self, pipe: &mut Pipe, variable: &Item) {
        let name: Arc<str> = variable.text.as_str().into();
        pipe.variables.push(name.clone());
        self.scope.variables.push(name);
    }

    fn command(&mut self) -> Parse<Command> {
        let mut command = Command {
            pos: self.peek_non_space().1,
            args: Vec::new(),
        };
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                command.args.push(operand);
            }
            let item = self.next();
            match item.kind {
                TokenKind::Space => continue,
                TokenKind::RightDelim | TokenKind::RightParen => self.back(item),
                TokenKind::Pipe => {}
                _ => return self.unexpected(&item, "operand"),
            }
            break;
        }
        if command.args.is_empty() {
            return self.error("empty command");
        }
        Ok(command)
    }

    fn operand(&mut self) -> Parse<Option<Arg>> {
        let Some(arg) = self.term()? else {
            return Ok(None);
        };
        let (kind, pos) = self.peek();
        if kind != TokenKind::Field {
            return Ok(Some(arg));
        }
        let mut names: Vec<Arc<str>> = Vec::new();
        while self.peek().0 == TokenKind::Field {
            names.push(self.next().text[1..].into());
        }
        let kind = match arg.kind {
            ArgKind::Field(mut first) => {
                first.extend(names);
                ArgKind::Field(first)
            }
            ArgKind::Variable(mut first) => {
                first.extend(names);
                ArgKind::Variable(first)
            }
            ArgKind::Bool(_) | ArgKind::Str(..) | ArgKind::Number(_) | ArgKind::Nil | ArgKind::Dot => {
                let term = crate::strconv::quote(&arg.to_string());
                return self.error(format_args!("unexpected . after term {term}"));
            }
            _ => ArgKind::Chain(Box::new(arg), names),
        };
        Ok(Some(Arg { pos, kind }))
    }

    fn term(&mut self) -> Parse<Option<Arg>> {
        let item = self.next_non_space();
        let kind = match item.kind {
            TokenKind::Identifier => {
                if !(self.source.has_function)(&item.text) {
                    let name = crate::strconv::quote(&item.text);
                    return self.error(format_args!("function {name} not defined"));
                }
                ArgKind::Identifier(item.text.as_str().into())
            }
            TokenKind::Dot => ArgKind::Dot,
            TokenKind::Nil => ArgKind::Nil,
            TokenKind::Variable => {
                if !self.scope.variables.iter().any(|it| **it == *item.text) {
                    let name = crate::strconv::quote(&item.text);
                    return self.error(format_args!("undefined variable {name}"));
                }
                ArgKind::Variable(vec![item.text.as_str().into()])
            }
            TokenKind::Field => ArgKind::Field(vec![item.text[1..].into()]),
            TokenKind::Bool => ArgKind::Bool(item.text == "true"),
            TokenKind::CharConstant | TokenKind::Complex | TokenKind::Number => match number(&item) {
                Ok(number) => ArgKind::Number(number),
                Err(message) => return self.error(message),
            },
            TokenKind::LeftParen => {
                if self.scope.nesting >= NESTING_MAX {
                    return self.error("max expression depth exceeded");
                }
                self.scope.nesting += 1;
                let pipe = with_stack(|| self.pipeline("parenthesized pipeline", TokenKind::RightParen))?;
                self.scope.nesting -= 1;
                return Ok(Some(Arg {
                    pos: pipe.pos,
                    kind: ArgKind::Pipe(Box::new(pipe)),
                }));
            }
            TokenKind::String | TokenKind::RawString => {
                let Some(bytes) = crate::strconv::unquote(&item.text) else {
                    return self.error("invalid syntax");
                };
                let literal = match String::from_utf8(bytes) {
                    Ok(text) => Literal::Str(text.into()),
                    Err(error) => Literal::Binary(error.into_bytes().into()),
                };
                ArgKind::Str(item.text.as_str().into(), literal)
            }
            _ => {
                self.back(item);
                return Ok(None);
            }
        };
        Ok(Some(Arg { pos: item.pos, kind }))
    }
}

fn number(item: &Item) -> Result<Number, String> {
    let text = item.text.as_str();
    let mut number = Number {
        text: text.into(),
        int: None,
        uint: None,
        float: None,
        complex: false,
    };
    if item.kind == TokenKind::CharConstant {
        let Some(code) = crate::strconv::unquote_char(text) else {
            // Go's reader takes the first character apart before it looks for the end.
            return Err(match text.starts_with("''") {
                true => "invalid syntax".to_owned(),
                false => format!("malformed character constant: {text}"),
            });
        };
        number.int = Some(code.into());
        number.uint = Some(code.into());
        number.float = Some(code.into());
        return Ok(number);
    }
    if item.kind == TokenKind::Complex || text.ends_with('i') {
        number.complex = true;
        return Ok(number);
    }
    number.uint = crate::strconv::parse_uint(text);
    number.int = crate::strconv::parse_int(text);
    match (number.int, number.uint) {
        (Some(value), _) => number.float = Some(value as f64),
        (None, Some(value)) => number.float = Some(value as f64),
        (None, None) => {
            if let Some(value) = crate::strconv::parse_float(text) {
                if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                    return Err(format!("integer overflow: {}", crate::strconv::quote(text)));
                }
                number.float = Some(value);
                if value as i64 as f64 == value {
                    number.int = Some(value as i64);
                }
                if value as u64 as f64 == value {
                    number.uint = Some(value as u64);
                }
            }
        }
    }
    if number.int.is_none() && number.uint.is_none() && number.float.is_none() {
        return Err(format!("illegal number syntax: {}", crate::strconv::quote(text)));
    }
    Ok(number)
}
