//! Runs a parsed template: Go's text/template/exec.go, with its messages and its order of evaluation.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{MissingKey, Settings};
use crate::functions::{Function, Functions, Param, Signature};
use crate::limits::{self, Account, TEMPLATE_DEPTH_MAX, TEXT_BYTES_MAX, check_text, with_stack};
use crate::node::{Arg, ArgKind, Branch, BranchKind, Command, Literal, Node, Number, Pipe, Tree};
use crate::parse::Trees;
use crate::value::{Elem, IntType, Map, Value};

/// What one execution shares with all templates that it calls.
pub(crate) struct Run<'a> {
    pub settings: &'a Settings,
    pub functions: &'a Functions,
    pub depth: Cell<usize>,
    /// How often each name is being included right now.
    pub includes: RefCell<HashMap<String, usize>>,
    pub host: Option<&'a dyn Host>,
    _account: Account,
}

impl<'a> Run<'a> {
    pub fn new(settings: &'a Settings, functions: &'a Functions, host: Option<&'a dyn Host>) -> Self {
        Run {
            host,
            settings,
            functions,
            depth: Cell::new(0),
            includes: RefCell::default(),
            _account: Account::open(settings.work_max),
        }
    }
}

/// Who answers, for the length of one execution, the functions that [`Functions::add_hosted`] named.
pub trait Host {
    /// What the function makes of these arguments.
    fn call(&self, call: &Call<'_>, function: &str, args: &[Value]) -> Result<Value, String>;

    /// Is told when the template prints bytes that are no text: its output has replacements in their place.
    fn printed_bytes(&self) {}
}

/// What a function knows about the execution that calls it.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) trees: &'a Trees,
}

impl Call<'_> {
    /// The time that the template is to take for now.
    pub fn now(&self) -> jiff::Timestamp {
        (self.run.settings.clock)()
    }

    /// Fills a buffer from the source of randomness that the engine was given.
    pub fn fill_random(&self, buffer: &mut [u8]) {
        (self.run.settings.random)(buffer);
    }

    /// Notes work that a function does, in units of evaluating one node of a template.
    ///
    /// # Errors
    /// When the execution has done too much already.
    pub fn pay(&self, work: u64) -> Result<(), String> {
        limits::pay(work)
    }

    /// Runs another template of the same set.
    pub fn execute(&self, name: &str, data: Value) -> Result<String, String> {
        let Some(tree) = self.trees.get(name) else {
            let name = crate::strconv::quote(name);
            return Err(format!(
                "template: no template {name} associated with template \"gotpl\""
            ));
        };
        execute(*self, tree, data)
    }
}

/// Runs one template of a set.
pub(crate) fn execute(call: Call<'_>, tree: &Tree, data: Value) -> Result<String, String> {
    if call.run.depth.get() >= TEMPLATE_DEPTH_MAX {
        return Err(format!("exceeded maximum template depth ({TEMPLATE_DEPTH_MAX})"));
    }
    call.run.depth.set(call.run.depth.get() + 1);
    let outcome = with_stack(|| {
        let dot = Slot::from(data);
        let mut state = State::new(call, tree, dot.clone());
        match state.nodes(&dot, &tree.root) {
            Ok(()) => Ok(state.out),
            Err(Stop::Error(message)) => Err(message),
            // The parser lets neither stand outside a range.
            Err(Stop::Break | Stop::Continue) => Ok(state.out),
        }
    });
    call.run.depth.set(call.run.depth.get() - 1);
    outcome
}

enum Stop {
    Error(String),
    Break,
    Continue,
}

type Step<T> = Result<T, Stop>;

/// A value and whether Go would hold it in an interface: messages about its type then say so.
#[derive(Clone)]
struct Slot {
    value: Value,
    boxed: bool,
}

impl From<Value> for Slot {
    fn from(value: Value) -> Self {
        Slot { value, boxed: false }
    }
}

/// The node that messages are about.
#[derive(Clone, Copy)]
enum At<'a> {
    Node(&'a Node),
    Pipe(&'a Pipe),
    Command(&'a Command),
    Arg(&'a Arg),
    Branch(&'a Branch),
}

impl At<'_> {
    fn pos(self) -> usize {
        match self {
            At::Node(it) => it.pos(),
            At::Pipe(it) => it.pos,
            At::Command(it) => it.pos,
            At::Arg(it) => it.pos,
            At::Branch(it) => it.pos,
        }
    }

    fn show(self) -> String {
        match self {
            At::Node(it) => it.to_string(),
            At::Pipe(it) => it.to_string(),
            At::Command(it) => it.to_string(),
            At::Arg(it) => it.to_string(),
            At::Branch(it) => it.to_string(),
        }
    }
}

struct State<'a> {
    call: Call<'a>,
    tree: &'a Tree,
    at: Option<At<'a>>,
    variables: Vec<(Arc<str>, Slot)>,
    out: String,
}

impl<'a> State<'a> {
    fn new(call: Call<'a>, tree: &'a Tree, dot: Slot) -> Self {
        State {
            call,
            tree,
            at: None,
            variables: vec![("$".into(), dot)],
            out: String::new(),
        }
    }

    fn error<T>(&self, message: impl std::fmt::Display) -> Step<T> {
        let text = match self.at {
            Some(at) => format!(
                "template: {}: executing {} at <{}>: {message}",
                self.tree.location(at.pos()),
                crate::strconv::quote(&self.tree.name),
                at.show(),
            ),
            None => format!("template: {}: {message}", self.tree.name),
        };
        Err(Stop::Error(text))
    }

    fn step(&self) -> Step<()> {
        match limits::pay(1) {
            Ok(()) => Ok(()),
            Err(message) => self.error(message),
        }
    }

    fn write(&mut self, text: &str) -> Step<()> {
        if self.out.len() + text.len() > TEXT_BYTES_MAX {
            return self.error(format_args!("the output is larger than {TEXT_BYTES_MAX} bytes"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn nodes(&mut self, dot: &Slot, nodes: &'a [Node]) -> Step<()> {
        nodes.iter().try_for_each(|node| self.node(dot, node))
    }

    fn node(&mut self, dot: &Slot, node: &'a Node) -> Step<()> {
        self.at = Some(At::Node(node));
        self.step()?;
        match node {
            Node::Text(_, text) => self.write(text),
            Node::Action(_, pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if !pipe.variables.is_empty() {
                    return Ok(());
                }
                self.at = Some(At::Node(node));
                match &value {
                    Value::Missing => self.write("<no value>"),
                    Value::Str(text) => self.write(text),
                    Value::Binary(bytes) => {
                        if let Some(host) = self.call.run.host {
                            host.printed_bytes();
                        }
                        self.write(&String::from_utf8_lossy(bytes))
                    }
                    other => self.write(&crate::gofmt::display(other)),
                }
            }
            Node::Branch(branch) => with_stack(|| {
                self.at = Some(At::Branch(branch));
                let mark = self.variables.len();
                let outcome = match branch.kind {
                    BranchKind::Range => self.range(dot, branch),
                    _ => self.if_or_with(dot, branch),
                };
                self.variables.truncate(mark);
                outcome
            }),
            Node::Template(_, name, pipe) => self.template(dot, name, pipe.as_ref()),
            Node::Break(_) => Err(Stop::Break),
            Node::Continue(_) => Err(Stop::Continue),
        }
    }

    fn if_or_with(&mut self, dot: &Slot, branch: &'a Branch) -> Step<()> {
        let value = self.pipeline(dot, &branch.pipe)?;
        if value.is_true() {
            return match branch.kind {
                BranchKind::With => self.nodes(&value.into(), &branch.body),
                _ => self.nodes(dot, &branch.body),
            };
        }
        match &branch.other {
            Some(other) => self.nodes(dot, other),
            None => Ok(()),
        }
    }

    fn range(&mut self, dot: &Slot, branch: &'a Branch) -> Step<()> {
        let value = self.pipeline(dot, &branch.pipe)?.underlying();
        let two = branch.pipe.variables.len() > 1;
        let mut ran = false;
        // A function, so that break ends the loop and nothing else.
        let mut one = |state: &mut Self, index: Value, item: Slot| -> Step<bool> {
            ran = true;
            match state.iteration(branch, index, item) {
                Ok(()) | Err(Stop::Continue) => Ok(true),
                Err(Stop::Break) => Ok(false),
                Err(error) => Err(error),
            }
        };
        match &value {
            Value::Int(count, kind) => {
                if two {
                    return self.error(format_args!("can't use {count} to iterate over more than one variable"));
                }
                for at in 0..*count {
                    if !one(self, Value::Missing, Value::Int(at, *kind).into())? {
                        break;
                    }
                }
            }
            Value::List(list) => {
                let boxed = list.elem() == Elem::Any;
                for (at, item) in list.items().iter().enumerate() {
                    let value = item.clone();
                    if !one(self, Value::len_of(at), Slot { value, boxed })? {
                        break;
                    }
                }
            }
            Value::Bytes(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    let item = Value::Int(i64::from(*byte), IntType::Uint8);
                    if !one(self, Value::len_of(at), item.into())? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                let boxed = map.elem() == Elem::Any;
                for (key, value) in map.entries() {
                    if !one(self, Value::Str(key), Slot { value, boxed })? {
                        break;
                    }
                }
            }
            Value::Missing | Value::Nil => {}
            other => {
                let shown = crate::gofmt::display(other);
                return self.error(format_args!("range can't iterate over {shown}"));
            }
        }
        match &branch.other {
            Some(other) if !ran => self.nodes(dot, other),
            _ => Ok(()),
        }
    }

    fn iteration(&mut self, branch: &'a Branch, index: Value, item: Slot) -> Step<()> {
        self.step()?;
        let variables = &branch.pipe.variables;
        let mark = self.variables.len();
        match (variables.as_slice(), branch.pipe.assigns) {
            ([], _) => {}
            ([name], true) => self.set_variable(name, item.clone())?,
            ([first, second, ..], true) => {
                self.set_variable(first, index.into())?;
                self.set_variable(second, item.clone())?;
            }
            ([_], false) => self.variables[mark - 1].1 = item.clone(),
            ([_, _, ..], false) => {
                self.variables[mark - 1].1 = item.clone();
                self.variables[mark - 2].1 = index.into();
            }
        }
        let outcome = self.nodes(&item, &branch.body);
        self.variables.truncate(mark);
        outcome
    }

    fn template(&mut self, dot: &Slot, name: &str, pipe: Option<&'a Pipe>) -> Step<()> {
        let call = self.call;
        let Some(tree) = call.trees.get(name) else {
            let name = crate::strconv::quote(name);
            return self.error(format_args!("template {name} not defined"));
        };
        let depth = &call.run.depth;
        if depth.get() >= TEMPLATE_DEPTH_MAX {
            return self.error(format_args!("exceeded maximum template depth ({TEMPLATE_DEPTH_MAX})"));
        }
        let dot = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Missing,
        };
        depth.set(depth.get() + 1);
        let outcome = with_stack(|| {
            let dot = Slot::from(dot);
            let mut state = State::new(call, tree, dot.clone());
            state.out = std::mem::take(&mut self.out);
            let outcome = state.nodes(&dot, &tree.root);
            self.out = state.out;
            outcome
        });
        depth.set(depth.get() - 1);
        outcome
    }

    fn set_variable(&mut self, name: &str, value: Slot) -> Step<()> {
        match self.variables.iter_mut().rev().find(|(it, _)| **it == *name) {
            Some((_, slot)) => {
                *slot = value;
                Ok(())
            }
            None => self.error(format_args!("undefined variable: {name}")),
        }
    }

    fn pipeline(&mut self, dot: &Slot, pipe: &'a Pipe) -> Step<Value> {
        self.at = Some(At::Pipe(pipe));
        let mut value = None;
        for command in &pipe.commands {
            let next = self.command(dot, command, value.take())?;
            // What an interface holds comes out here; a nil in one becomes nothing at all.
            value = Some(match next.value {
                Value::Nil => Value::Missing,
                other => other,
            });
        }
        let value = value.unwrap_or(Value::Missing);
        for name in &pipe.variables {
            if pipe.assigns {
                self.set_variable(name, value.clone().into())?;
            } else {
                self.variables.push((name.clone(), value.clone().into()));
            }
        }
        Ok(value)
    }

    fn not_a_function(&self, command: &Command, last: &Option<Value>) -> Step<()> {
        if command.args.len() > 1 || last.is_some() {
            return self.error(format_args!("can't give argument to non-function {}", command.args[0]));
        }
        Ok(())
    }

    fn command(&mut self, dot: &Slot, command: &'a Command, last: Option<Value>) -> Step<Slot> {
        self.step()?;
        let first = &command.args[0];
        let rest = &command.args[1..];
        match &first.kind {
            ArgKind::Field(names) => {
                self.at = Some(At::Arg(first));
                return self.fields(dot, dot.clone(), At::Arg(first), names, rest, last);
            }
            ArgKind::Chain(inner, names) => return self.chain(dot, first, inner, names, rest, last),
            ArgKind::Identifier(name) => {
                self.at = Some(At::Arg(first));
                return self.function(dot, name, At::Command(command), rest, last);
            }
            ArgKind::Pipe(pipe) => {
                self.not_a_function(command, &last)?;
                return Ok(with_stack(|| self.pipeline(dot, pipe))?.into());
            }
            ArgKind::Variable(names) => {
                self.at = Some(At::Arg(first));
                if names.len() == 1 {
                    self.not_a_function(command, &last)?;
                }
                return self.variable(dot, first, names, rest, last);
            }
            _ => {}
        }
        self.at = Some(At::Arg(first));
        self.not_a_function(command, &last)?;
        match &first.kind {
            ArgKind::Dot => Ok(dot.clone()),
            ArgKind::Nil => self.error("nil is not a command"),
            _ => Ok(self.constant(first)?.into()),
        }
    }

    /// A constant where nothing says which type it is to have.
    fn constant(&mut self, arg: &'a Arg) -> Step<Value> {
        self.at = Some(At::Arg(arg));
        match &arg.kind {
            ArgKind::Bool(value) => Ok(Value::Bool(*value)),
            ArgKind::Str(_, Literal::Str(text)) => Ok(Value::Str(text.clone())),
            ArgKind::Str(_, Literal::Binary(bytes)) => Ok(Value::Binary(bytes.clone())),
            ArgKind::Number(number) => self.number(number),
            _ => self.error(format_args!(
                "can't evaluate command {}",
                crate::strconv::quote(&arg.to_string())
            )),
        }
    }

    fn number(&self, number: &Number) -> Step<Value> {
        let text = &*number.text;
        if number.complex {
            return self.error(format_args!("{text}: complex numbers are not supported"));
        }
        let hexadecimal =
            text.len() > 2 && (text.starts_with("0x") || text.starts_with("0X")) && !text.contains(['p', 'P']);
        match (number.float, number.int) {
            (Some(value), _) if !hexadecimal && !text.starts_with('\'') && text.contains(['.', 'e', 'E', 'p', 'P']) => {
                Ok(Value::Float(value))
            }
            (_, Some(value)) => Ok(Value::int(value)),
            _ => self.error(format_args!("{text} overflows int")),
        }
    }

    fn chain(
        &mut self,
        dot: &Slot,
        arg: &'a Arg,
        inner: &'a Arg,
        names: &'a [Arc<str>],
        args: &'a [Arg],
        last: Option<Value>,
    ) -> Step<Slot> {
        self.at = Some(At::Arg(arg));
        if let ArgKind::Nil = inner.kind {
            return self.error(format_args!("indirection through explicit nil in {arg}"));
        }
        let receiver = self.argument(dot, None, inner)?;
        self.fields(dot, receiver, At::Arg(arg), names, args, last)
    }

    fn variable(
        &mut self,
        dot: &Slot,
        arg: &'a Arg,
        names: &'a [Arc<str>],
        args: &'a [Arg],
        last: Option<Value>,
    ) -> Step<Slot> {
        self.at = Some(At::Arg(arg));
        let Some((_, slot)) = self.variables.iter().rev().find(|(it, _)| *it == names[0]) else {
            return self.error(format_args!("undefined variable: {}", names[0]));
        };
        let slot = slot.clone();
        if names.len() == 1 {
            return Ok(slot);
        }
        self.fields(dot, slot, At::Arg(arg), &names[1..], args, last)
    }

    fn fields(
        &mut self,
        dot: &Slot,
        mut receiver: Slot,
        at: At<'a>,
        names: &'a [Arc<str>],
        args: &'a [Arg],
        last: Option<Value>,
    ) -> Step<Slot> {
        let (final_name, names) = names.split_last().expect("a chain of fields has a field");
        for name in names {
            receiver = self.field(dot, receiver, at, name, &[], None)?;
        }
        self.field(dot, receiver, at, final_name, args, last)
    }

    fn field(
        &mut self,
        dot: &Slot,
        receiver: Slot,
        at: At<'a>,
        name: &str,
        args: &'a [Arg],
        last: Option<Value>,
    ) -> Step<Slot> {
        let has_args = !args.is_empty() || last.is_some();
        match &receiver.value {
            Value::Missing => {
                if self.call.run.settings.missing_key == MissingKey::Error {
                    let name = crate::strconv::quote(name);
                    return self.error(format_args!("nil data; no entry for key {name}"));
                }
                return Ok(Value::Missing.into());
            }
            Value::Nil => return self.error(format_args!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(map) => return self.entry(map, name, has_args),
            Value::Object(object) => {
                if let Some(parameters) = object.method(name) {
                    let signature = Signature::parse(parameters);
                    let args = self.arguments(dot, name, &signature, args, last)?;
                    let outcome = object.call(name, &args);
                    return match outcome {
                        Ok(value) => Ok(value.into()),
                        Err(message) => {
                            self.at = Some(at);
                            self.error(format_args!("error calling {name}: {message}"))
                        }
                    };
                }
                if let Some(value) = object.field(name) {
                    if has_args {
                        return self.error(format_args!("{name} has arguments but cannot be invoked as function"));
                    }
                    return Ok(value.into());
                }
                if let Some(Value::Map(map)) = object.items() {
                    return self.entry(&map, name, has_args);
                }
            }
            _ => {}
        }
        let type_name = if receiver.boxed {
            "interface {}".into()
        } else {
            receiver.value.type_name()
        };
        self.error(format_args!("can't evaluate field {name} in type {type_name}"))
    }

    fn entry(&self, map: &Map, name: &str, has_args: bool) -> Step<Slot> {
        if has_args {
            return self.error(format_args!("{name} is not a method but has arguments"));
        }
        let boxed = map.elem() == Elem::Any;
        if let Some(value) = map.get(name) {
            return Ok(Slot { value, boxed });
        }
        match self.call.run.settings.missing_key {
            MissingKey::Default => Ok(Value::Missing.into()),
            MissingKey::Zero => Ok(Slot {
                value: zero_of(map.elem()),
                boxed,
            }),
            MissingKey::Error => {
                let name = crate::strconv::quote(name);
                self.error(format_args!("map has no entry for key {name}"))
            }
        }
    }

    fn function(&mut self, dot: &Slot, name: &'a str, at: At<'a>, args: &'a [Arg], last: Option<Value>) -> Step<Slot> {
        let functions = self.call.run.functions;
        let Some(function) = functions.get(name) else {
            let name = crate::strconv::quote(name);
            return self.error(format_args!("{name} is not a defined function"));
        };
        if function.builtin && (name == "and" || name == "or") {
            return self.and_or(dot, name, function, args, last);
        }
        let values = self.arguments(dot, name, &function.signature, args, last)?;
        let weight = values.iter().map(limits::weight).sum::<u64>();
        let outcome = if function.builtin && name == "call" {
            Err(not_callable(args.first(), &values))
        } else {
            limits::pay(limits::cost_of(name) + weight).and_then(|()| (function.body)(&self.call, &values))
        };
        let outcome = outcome.and_then(|value| {
            limits::pay(limits::weight(&value))?;
            if let Some(bytes) = value.as_bytes() {
                check_text(bytes.len())?;
            }
            Ok(value)
        });
        match outcome {
            Ok(value) => Ok(value.into()),
            Err(message) => {
                self.at = Some(at);
                self.error(format_args!("error calling {name}: {message}"))
            }
        }
    }

    fn check_count(&self, name: &str, signature: &Signature, args: usize, last: bool) -> Step<()> {
        let given = args + usize::from(last);
        let fixed = signature.params.len() - usize::from(signature.variadic);
        if signature.variadic {
            if given < fixed {
                return self.error(format_args!(
                    "wrong number of args for {name}: want at least {fixed} got {args}"
                ));
            }
        } else if given != fixed {
            return self.error(format_args!(
                "wrong number of args for {name}: want {fixed} got {given}"
            ));
        }
        Ok(())
    }

    fn and_or(
        &mut self,
        dot: &Slot,
        name: &str,
        function: &Function,
        args: &'a [Arg],
        last: Option<Value>,
    ) -> Step<Slot> {
        self.check_count(name, &function.signature, args.len(), last.is_some())?;
        let mut value = Slot::from(Value::Missing);
        for arg in args {
            value = self.argument(dot, Some(Param::Raw), arg)?;
            if value.value.is_true() == (name == "or") {
                return Ok(value);
            }
        }
        match last {
            Some(last) => Ok(self.validate(last.into(), Some(Param::Raw))?),
            None => Ok(value),
        }
    }

    fn arguments(
        &mut self,
        dot: &Slot,
        name: &str,
        signature: &Signature,
        args: &'a [Arg],
        last: Option<Value>,
    ) -> Step<Vec<Value>> {
        self.check_count(name, signature, args.len(), last.is_some())?;
        let params = &signature.params;
        let param = |at: usize| params.get(at).or(params.last()).copied();
        let mut values = Vec::with_capacity(args.len() + 1);
        for (at, arg) in args.iter().enumerate() {
            values.push(self.argument(dot, param(at), arg)?.value);
        }
        if let Some(last) = last {
            values.push(self.validate(last.into(), param(args.len()))?.value);
        }
        Ok(values)
    }

    /// The value as the parameter wants it, or Go's words for why not.
    fn validate(&self, slot: Slot, param: Option<Param>) -> Step<Slot> {
        let Some(param) = param else {
            return Ok(slot);
        };
        let fits = match (param, &slot.value) {
            (Param::Raw, _) => true,
            (Param::Any, Value::Missing) => return Ok(Value::Nil.into()),
            (_, Value::Missing) if param.can_be_nil() => return Ok(Value::Nil.into()),
            (_, Value::Missing) => {
                return self.error(format_args!("invalid value; expected {}", param.type_name()));
            }
            (Param::Any, _) => true,
            (_, Value::Nil) => {
                let wanted = param.type_name();
                return self.error(format_args!(
                    "wrong type for value; expected {wanted}; got interface {{}}"
                ));
            }
            (Param::Str, Value::Str(_) | Value::Binary(_)) => true,
            (Param::Int, Value::Int(_, kind)) => *kind == IntType::Int,
            (Param::Int64, Value::Int(_, kind)) => *kind == IntType::Int64,
            (Param::Uint32, Value::Int(_, kind)) => *kind == IntType::Uint32,
            (Param::Float, Value::Float(_)) | (Param::Bool, Value::Bool(_)) | (Param::Bytes, Value::Bytes(_)) => true,
            (Param::List, Value::List(list)) => list.elem() == Elem::Any,
            (Param::Strings, Value::List(list)) => list.elem() == Elem::Str,
            (Param::Dict, Value::Map(map)) => map.elem() == Elem::Any,
            _ => false,
        };
        if fits {
            return Ok(slot);
        }
        let (wanted, got) = (param.type_name(), slot.value.type_name());
        self.error(format_args!("wrong type for value; expected {wanted}; got {got}"))
    }

    fn argument(&mut self, dot: &Slot, param: Option<Param>, arg: &'a Arg) -> Step<Slot> {
        self.at = Some(At::Arg(arg));
        self.step()?;
        let value = match &arg.kind {
            ArgKind::Dot => dot.clone(),
            ArgKind::Nil => match param {
                Some(Param::Raw) => return Ok(Value::Missing.into()),
                Some(param) if !param.can_be_nil() => {
                    return self.error(format_args!("cannot assign nil to {}", param.type_name()));
                }
                _ => return Ok(Value::Nil.into()),
            },
            ArgKind::Field(names) => self.fields(dot, dot.clone(), At::Arg(arg), names, &[], None)?,
            ArgKind::Variable(names) => self.variable(dot, arg, names, &[], None)?,
            ArgKind::Pipe(pipe) => with_stack(|| self.pipeline(dot, pipe))?.into(),
            ArgKind::Identifier(name) => self.function(dot, name, At::Arg(arg), &[], None)?,
            ArgKind::Chain(inner, names) => self.chain(dot, arg, inner, names, &[], None)?,
            _ => return self.typed_constant(param, arg),
        };
        self.validate(value, param)
    }

    fn typed_constant(&mut self, param: Option<Param>, arg: &'a Arg) -> Step<Slot> {
        let value = match (param, &arg.kind) {
            (None | Some(Param::Any | Param::Raw), _) => self.constant(arg)?,
            (Some(Param::Bool), ArgKind::Bool(value)) => Value::Bool(*value),
            (Some(Param::Bool), _) => return self.error(format_args!("expected bool; found {arg}")),
            (Some(Param::Str), ArgKind::Str(..)) => self.constant(arg)?,
            (Some(Param::Str), _) => return self.error(format_args!("expected string; found {arg}")),
            (Some(param @ (Param::Int | Param::Int64)), ArgKind::Number(Number { int: Some(value), .. })) => {
                if param == Param::Int {
                    Value::int(*value)
                } else {
                    Value::int64(*value)
                }
            }
            (Some(Param::Int | Param::Int64), _) => {
                return self.error(format_args!("expected integer; found {arg}"));
            }
            (Some(Param::Uint32), ArgKind::Number(Number { int: Some(value), .. })) if *value >= 0 => {
                // Go keeps the lower bits of what is too large.
                Value::Int(value & i64::from(u32::MAX), IntType::Uint32)
            }
            (Some(Param::Uint32), _) => {
                return self.error(format_args!("expected unsigned integer; found {arg}"));
            }
            (Some(Param::Float), ArgKind::Number(Number { float: Some(value), .. })) => Value::Float(*value),
            (Some(Param::Float), _) => return self.error(format_args!("expected float; found {arg}")),
            (Some(param), _) => {
                let wanted = param.type_name();
                return self.error(format_args!("can't handle {arg} for arg of type {wanted}"));
            }
        };
        Ok(value.into())
    }
}

/// Go's zero value of a map's elements.
pub(crate) fn zero_of(elem: Elem) -> Value {
    match elem {
        Elem::Any | Elem::Map => Value::Nil,
        Elem::Str => Value::from(""),
        Elem::Int => Value::int(0),
    }
}

fn not_callable(name: Option<&Arg>, values: &[Value]) -> String {
    match values.first() {
        None | Some(Value::Missing | Value::Nil) => "call of nil".to_owned(),
        Some(value) => {
            let name = name.map_or_else(|| crate::gofmt::display(value), ToString::to_string);
            format!("non-function {name} of type {}", value.type_name())
        }
    }
}
