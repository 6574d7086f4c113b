//! Functions of the engine of which one call could cost too much: what matches regular expressions. The engine would
//! compile them anew in every call, as large as they get.

use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock},
};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::{Arguments, This},
};
use parking_lot::Mutex;
use regex::Regex;

use crate::charge::{failed, pay};

/// How large the program of a regular expression may be.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// What compiling one costs, besides its length.
const COMPILING_COST: u64 = 5000;
/// How many are kept.
const KEPT: usize = 64;

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    root.add_function(
        "matches",
        |ftx: &FunctionContext, This(text): This<Arc<String>>, pattern: Arc<String>| {
            Ok::<_, ExecutionError>(matcher(ftx, &pattern, &text)?.is_match(&text))
        },
    );
    root.add_function(
        "find",
        |ftx: &FunctionContext, This(text): This<Arc<String>>, pattern: Arc<String>| {
            let regex = matcher(ftx, &pattern, &text)?;
            let found = regex.find(&text).map_or_else(String::new, |it| it.as_str().to_owned());
            Ok::<Value, ExecutionError>(found.into())
        },
    );
    root.add_function(
        "findAll",
        |ftx: &FunctionContext, This(text): This<Arc<String>>, Arguments(args): Arguments| {
            let Some(Value::String(pattern)) = args.first() else {
                return Err(failed("findAll", "no such overload"));
            };
            let limit = match args.get(1) {
                None => usize::MAX,
                // Negative is without a limit, as in Go.
                Some(Value::Int(it)) => usize::try_from(*it).unwrap_or(usize::MAX),
                Some(_) => return Err(failed("findAll", "no such overload")),
            };
            let regex = matcher(ftx, pattern, &text)?;
            let found = regex.find_iter(&text).take(limit).map(|it| Value::from(it.as_str()));
            Ok(Value::List(Arc::new(found.collect())))
        },
    );
}

/// The program of a pattern; pays for it, and for going through a text with it.
fn matcher(ftx: &FunctionContext, pattern: &str, text: &str) -> Result<Regex, ExecutionError> {
    static COMPILED: LazyLock<Mutex<VecDeque<(String, Regex)>>> = LazyLock::new(Mutex::default);
    pay(
        ftx,
        (1 + text.len() as u64 / 10).saturating_mul(1 + pattern.len() as u64 / 4),
    )?;
    if let Some(found) = COMPILED.lock().iter().find(|it| it.0 == pattern) {
        return Ok(found.1.clone());
    }
    pay(ftx, COMPILING_COST + pattern.len() as u64 * 10)?;
    let compiled = go_regex::compile_within(pattern, PROGRAM_BYTES_MAX)
        .map_err(|error| failed("", &format!("error parsing regexp: {error}")))?;
    let mut kept = COMPILED.lock();
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back((pattern.to_owned(), compiled.clone()));
    Ok(compiled)
}
