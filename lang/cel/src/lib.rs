//! CEL that strangers may write: expressions are read once, and evaluated as often as wanted, in bounded time, memory
//! and stack, whatever they say. What is wrong with one is an error with a sentence, never a panic.
//!
//! kube-cel gives the language and Kubernetes' functions. It has no checker, no cost counter and no bound on its stack,
//! and it panics on what it does not know. So here
//! - [`guard`] reads the text before the parser does, and refuses what nests too deeply;
//! - [`literals`] writes in another way what the parser reads wrongly, and [`macros`] adds the macros
//!   that it does not know;
//! - [`check`] refuses names, functions and constructs that do not exist;
//! - [`charge`] lets every round of a macro, and everything that is made, pay from a [`Budget`];
//! - [`functions`] takes the place of those functions that answer otherwise than Kubernetes' do, or of which one call
//!   could cost too much, and [`values`] that of the operators that compare;
//! - the stack grows with the depth of the expression, and a panic that still happens is an error.

mod charge;
mod check;
mod cost;
mod functions;
mod guard;
mod json;
mod literals;
mod macros;
mod times;
mod values;

use std::{
    fmt::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
};

use kube_cel::{
    KubeCelExt,
    cel::{ExecutionError, parser::Parser},
};

pub use check::{for_each_child, mentions};
pub use cost::Budget;
pub use json::from_json;
/// The language itself: values, contexts and trees.
pub use kube_cel::cel as language;
pub use language::{Context, IdedExpr, Value};

/// Enough for anything a person writes.
pub const LENGTH_MAX: usize = 16 * 1024;
/// How deep an expression may nest: the parser, the engine and whoever walks the tree go as deep.
pub const DEPTH_MAX: usize = 200;
/// What one expression may cost, as Kubernetes has it.
pub const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// What all expressions on one object may cost together, as Kubernetes has it.
pub const OBJECT_COST_MAX: u64 = 10_000_000;

/// What reading takes of the stack, in a build without optimizations too. Only what is used of it becomes memory.
const READING_STACK_BYTES: usize = 64 << 20;
/// What a level of an expression takes of the stack while it is evaluated, and what the rest takes.
const LEVEL_STACK_BYTES: usize = 64 << 10;
const BASE_STACK_BYTES: usize = 256 << 10;
/// An error says this much of what it is about.
const ERROR_CHARS_MAX: usize = 1024;

/// Why an expression cannot be used. Reads as kube-apiserver's does, after `compilation failed: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compilation failed: {0}")]
pub struct CompileError(pub String);

impl CompileError {
    /// An error at the first place where `needle` stands in the source.
    pub fn at(source: &str, needle: &str, text: &str) -> Self {
        Self::at_byte(source, source.find(needle).unwrap_or(0), text)
    }

    /// An error at a byte of the source; at its beginning if no character begins there.
    pub fn at_byte(source: &str, at: usize, text: &str) -> Self {
        let before = source.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count();
        Self(located(source, line, column + 1, text))
    }
}

fn located(source: &str, line: usize, column: usize, text: &str) -> String {
    let shown: String = source
        .lines()
        .nth(line - 1)
        .unwrap_or("")
        .chars()
        .take(ERROR_CHARS_MAX)
        .collect();
    let dots = ".".repeat((column - 1).min(ERROR_CHARS_MAX));
    format!("ERROR: <input>:{line}:{column}: {text}\n | {shown}\n | {dots}^")
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It, or those before it, would cost too much.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    /// What the engine says, without the values: they may be secret.
    #[error("{0}")]
    Failed(String),
    /// The engine did not expect this. A bug of the engine, which costs this expression and nothing else.
    #[error("the expression cannot be evaluated: the engine failed")]
    Engine,
}

/// Words that mean something in CEL, or are kept for it: nothing can be called so.
pub const RESERVED_WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The functions that expressions may call.
pub struct Library {
    root: Context<'static>,
}

impl Library {
    /// The functions that Kubernetes has everywhere.
    pub fn kubernetes() -> &'static Self {
        static KUBERNETES: LazyLock<Library> = LazyLock::new(|| Library::extended(|_| {}));
        &KUBERNETES
    }

    /// Kubernetes' functions and some more.
    pub fn extended(add: impl FnOnce(&mut Context<'static>)) -> Self {
        let mut root = Context::default().with_all();
        functions::replace(&mut root);
        macros::add_functions(&mut root);
        values::add_operators(&mut root);
        charge::add_functions(&mut root);
        add(&mut root);
        Self { root }
    }

    /// A context for variables: expressions are evaluated in it.
    pub fn scope(&self) -> Context<'_> {
        self.root.new_inner_scope()
    }

    /// Reads an expression that may name these variables.
    ///
    /// # Errors
    /// When it is no expression, nests too deeply, or names what does not exist.
    pub fn read(&self, text: &str, variables: &[&str]) -> Result<Tree, CompileError> {
        if text.len() > LENGTH_MAX {
            return Err(CompileError(format!(
                "the expression is longer than {LENGTH_MAX} bytes"
            )));
        }
        if text.trim().is_empty() {
            let message = "Syntax error: mismatched input '<EOF>' expecting an expression";
            return Err(CompileError(located(text, 1, 1, message)));
        }
        guard::check(text)?;
        let unescapable = || CompileError(located(text, 1, 1, "unable to unescape string"));
        let prepared = literals::prepare(text).ok_or_else(unescapable)?;
        let read = || {
            let parser = Parser::default().enable_optional_syntax(true);
            let mut expression = parser
                .parse(&prepared)
                .map_err(|errors| CompileError(syntax_errors(text, &errors)))?;
            macros::expand(&mut expression);
            let tree = Tree {
                depth: charge::depth(&expression),
                expression,
                text: text.into(),
                variables: variables.iter().map(|it| (*it).to_owned()).collect(),
            };
            if tree.depth > 2 * DEPTH_MAX {
                return Err(guard::too_deep());
            }
            check::check(&self.root, text, &tree.expression, variables)?;
            Ok(tree)
        };
        let read = AssertUnwindSafe(|| stacker::maybe_grow(READING_STACK_BYTES, READING_STACK_BYTES, read));
        catch_unwind(read).unwrap_or_else(|_| Err(CompileError("the expression cannot be read".to_owned())))
    }

    /// Reads an expression for evaluation.
    ///
    /// # Errors
    /// As [`Library::read`].
    pub fn compile(&self, text: &str, variables: &[&str]) -> Result<Expression, CompileError> {
        self.read(text, variables).map(Tree::compile)
    }
}

fn syntax_errors(text: &str, errors: &language::ParseErrors) -> String {
    /// After a few, the rest follow from the first.
    const SHOWN: usize = 5;
    let place = |it: isize| usize::try_from(it).unwrap_or(1).max(1);
    let lines = errors.errors.iter().take(SHOWN).map(|it| {
        // The parser says of some itself what they are.
        let message = it.msg.strip_prefix("Syntax error: ").unwrap_or(&it.msg);
        let message: String = message.chars().take(ERROR_CHARS_MAX).collect();
        located(
            text,
            place(it.pos.0),
            place(it.pos.1),
            &format!("Syntax error: {message}"),
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// An expression as it was read, to look at before it is compiled.
#[derive(Clone, Debug)]
pub struct Tree {
    expression: IdedExpr,
    text: Arc<str>,
    depth: usize,
    variables: Vec<String>,
}

impl Tree {
    /// Looks at the tree, where the stack is deep enough for walking it.
    pub fn look<T>(&self, look: impl FnOnce(&IdedExpr) -> T) -> T {
        let bytes = BASE_STACK_BYTES + self.depth * LEVEL_STACK_BYTES;
        stacker::maybe_grow(bytes, bytes, || look(&self.expression))
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it names a variable.
    pub fn mentions(&self, variable: &str) -> bool {
        self.look(|it| mentions(it, variable))
    }

    /// Makes it ready for evaluation.
    pub fn compile(self) -> Expression {
        let bytes = BASE_STACK_BYTES + self.depth * LEVEL_STACK_BYTES;
        stacker::maybe_grow(bytes, bytes, || {
            let Self {
                mut expression,
                text,
                variables,
                ..
            } = self;
            let loops = charge::charge(&mut expression, variables);
            Expression {
                depth: charge::depth(&expression),
                expression: Arc::new(expression),
                text,
                loops,
            }
        })
    }
}

/// An expression that may be evaluated. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Expression {
    expression: Arc<IdedExpr>,
    text: Arc<str>,
    /// Of the tree with what pays in it.
    depth: usize,
    /// How many macros it has.
    loops: usize,
}

impl Expression {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As it was written.
    pub fn shared_text(&self) -> &Arc<str> {
        &self.text
    }

    /// The value of the expression in a context made by [`Library::scope`] of the library that compiled it.
    ///
    /// # Errors
    /// When it has none, or would cost more than is left.
    pub fn evaluate(&self, context: &Context<'_>, budget: &mut Budget) -> Result<Value, Error> {
        let bytes = BASE_STACK_BYTES + self.depth * LEVEL_STACK_BYTES;
        let purse = cost::open(budget, self.loops);
        let run = || {
            context
                .resolve(&self.expression)
                .map_err(|error| Error::Failed(said(&error)))
        };
        let run = AssertUnwindSafe(|| stacker::maybe_grow(bytes, bytes, run));
        let result = catch_unwind(run).unwrap_or(Err(Error::Engine));
        // Somebody may have gone on after an error, as `||` does.
        if purse.close(budget) { Err(Error::Cost) } else { result }
    }

    /// Whether it is true; `None` when it is something else than a bool.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn is_true(&self, context: &Context<'_>, budget: &mut Budget) -> Result<Option<bool>, Error> {
        match self.evaluate(context, budget)? {
            Value::Bool(it) => Ok(Some(it)),
            _ => Ok(None),
        }
    }
}

/// An error in the words of Kubernetes' engine, without the values that ours would print.
fn said(error: &ExecutionError) -> String {
    use ExecutionError as It;
    match error {
        It::NoSuchKey(key) => bounded(&format_args!("no such key: {key}")),
        It::UndeclaredReference(name) => bounded(&format_args!("undeclared reference to '{name}' (in container '')")),
        It::DivisionByZero(_) => "division by zero".to_owned(),
        It::RemainderByZero(_) => "modulus by zero".to_owned(),
        It::Overflow(..) => "integer overflow".to_owned(),
        It::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        It::FunctionError { function, message } if function.is_empty() => bounded(message),
        It::FunctionError { function, message } => bounded(&format_args!("{function}: {message}")),
        It::InvalidArgumentCount { expected, actual } => {
            format!("invalid argument count: expected {expected}, got {actual}")
        }
        It::UnsupportedKeyType(_) => "unsupported key type".to_owned(),
        _ => "no such overload".to_owned(),
    }
}

/// The beginning of a text that may be long.
fn bounded(text: &dyn fmt::Display) -> String {
    struct Bounded(String);
    impl Write for Bounded {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let left = ERROR_CHARS_MAX.saturating_sub(self.0.len());
            if text.len() > left {
                let end = (0..=left).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
                self.0.push_str(&text[..end]);
                return Err(fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }
    let mut bounded = Bounded(String::new());
    if write!(bounded, "{text}").is_err() {
        bounded.0.push_str("...");
    }
    bounded.0
}

#[cfg(test)]
mod tests;
