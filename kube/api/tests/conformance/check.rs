//! One numbered behaviour, and how it is found out whether a server has it.

use crate::cx::Cx;
use futures::future::BoxFuture;
use std::{cmp::Ordering, future::Future};

/// How much a client may count on a behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Must,
    Should,
    /// Not there yet: the check is that the server says so as Kubernetes would, and neither is silent nor pretends.
    Later,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::Later => "later",
        }
    }
}

type Run = Box<dyn Fn(Cx) -> BoxFuture<'static, ()> + Send + Sync>;

/// One row of the list.
pub struct Check {
    /// As the list numbers it: `44`, or `27.5` for the fifth thing that clients depend on in silence.
    pub number: &'static str,
    pub level: Level,
    pub says: &'static str,
    /// Why it can be asked of the embedded server alone.
    pub embedded_only: Option<&'static str>,
    /// What of it can be asked of the embedded server alone, while the rest is asked of any.
    pub embedded_too: Option<&'static str>,
    /// A program that it runs.
    pub program: Option<&'static str>,
    /// Whether the server has to reach the loopback address of this process.
    pub is_called_back: bool,
    run: Run,
}

fn check<F, R>(number: &'static str, level: Level, says: &'static str, run: F) -> Check
where
    F: Fn(Cx) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    Check {
        number,
        level,
        says,
        embedded_only: None,
        embedded_too: None,
        program: None,
        is_called_back: false,
        run: Box::new(move |it| Box::pin(run(it))),
    }
}

/// A behaviour without which clients break.
pub fn must<F, R>(number: &'static str, says: &'static str, run: F) -> Check
where
    F: Fn(Cx) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    check(number, Level::Must, says, run)
}

/// A behaviour that clients notice.
pub fn should<F, R>(number: &'static str, says: &'static str, run: F) -> Check
where
    F: Fn(Cx) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    check(number, Level::Should, says, run)
}

/// A behaviour of a later time, and what is answered until then.
pub fn later<F, R>(number: &'static str, says: &'static str, run: F) -> Check
where
    F: Fn(Cx) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    check(number, Level::Later, says, run)
}

impl Check {
    /// It needs the inside of the embedded server.
    pub fn embedded(mut self, why: &'static str) -> Self {
        self.embedded_only = Some(why);
        self
    }

    /// A part of it needs the inside of the embedded server, and is left out elsewhere.
    pub fn embedded_too(mut self, part: &'static str) -> Self {
        self.embedded_too = Some(part);
        self
    }

    /// It runs a program that has to be there.
    pub fn with_program(mut self, program: &'static str) -> Self {
        self.program = Some(program);
        self
    }

    /// The server has to call this process on its loopback address.
    pub fn called_back(mut self) -> Self {
        self.is_called_back = true;
        self
    }

    pub fn run(&self, cx: Cx) -> BoxFuture<'static, ()> {
        (self.run)(cx)
    }
}

/// Orders the list by number, and the dependencies (`27.5` before `27.12`) after it.
pub fn compare(one: &str, other: &str) -> Ordering {
    let key = |text: &str| -> (u32, u32) {
        let (section, number) = text.split_once('.').unwrap_or(("0", text));
        (section.parse().unwrap_or(0), number.parse().unwrap_or(0))
    };
    key(one).cmp(&key(other))
}
