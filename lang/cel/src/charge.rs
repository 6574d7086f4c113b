//! Puts what pays into an expression: every round of a macro, everything that is made,
//! and what the engine copies to look at it.

use std::sync::Arc;

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, IdedExpr, Value,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators},
    objects::{Key, OptionalValue},
};

use crate::{
    check::{call, for_each_child},
    cost, functions, values,
};

/// Before the first round of a macro.
const BEGIN: &str = "@begin";
/// Around the condition of a macro: one round.
const TICK: &str = "@tick";
/// The same for a macro that makes a list: the engine copies what is there in every round.
const TICK_LIST: &str = "@tickList";
/// Around a round of `all` or `exists`: what goes wrong there may not matter.
const KEEP: &str = "@keep";
/// Around their result: it did matter, unless a round decided.
const SETTLE: &str = "@settle";
/// Around a field or an item that may not be there: what has none of either is no error.
const OPTIONALLY: &str = "@optionally";
/// Whether an optional value is there.
const PRESENT: &str = "@present";
/// Pays for the size of its argument.
const SIZED: &str = "@sized";
/// Pays for each character of its argument.
const LONG: &str = "@long";
/// Pays for comparing each item of a list with each.
const PAIRS: &str = "@pairs";
/// Takes no long text.
const SHORT: &str = "@short";
/// Takes no format with a precision that would make much out of nothing.
const FORMAT: &str = "@format";
/// What multiplies its arguments' sizes takes only short ones: it would be paid for after it was made.
const MULTIPLIERS: &[&str] = &["replace", "join", "format"];
/// What makes a value of each character.
const TEARERS: &[&str] = &["split", "findAll"];
const SHORT_MAX: u64 = 2000;
/// What looking at something again costs.
const AGAIN_COST: u64 = 100;
/// So many parts of an expression cost as much as a round of a macro. Kubernetes lets each of them cost that.
const PARTS_OF_A_ROUND: usize = 5;

/// How deep an expression nests.
pub fn depth(it: &IdedExpr) -> usize {
    let mut deepest = 0;
    for_each_child(it, &mut |it| deepest = deepest.max(depth(it)));
    deepest + 1
}

/// How many parts an expression has that are computed once when it is: not those in the rounds of its macros.
fn parts(it: &IdedExpr) -> usize {
    if let Expr::Comprehension(it) = &it.expr {
        return 1 + parts(&it.iter_range) + parts(&it.accu_init);
    }
    let mut count = 1;
    for_each_child(it, &mut |it| count += parts(it));
    count
}

/// Puts what pays into an expression over these variables; says how many macros it has.
pub fn charge(it: &mut IdedExpr, variables: Vec<String>) -> usize {
    let mut charger = Charger {
        loops: 0,
        names: variables,
    };
    charger.charge(it, None);
    charger.loops
}

/// The variables of the macro around.
#[derive(Clone, Copy)]
struct Around<'a> {
    accumulator: &'a str,
    item: &'a str,
    second: Option<&'a str>,
}

struct Charger {
    loops: usize,
    /// Every variable so far, those of macros too.
    names: Vec<String>,
}

fn literal(number: usize) -> IdedExpr {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    IdedExpr {
        id: 0,
        expr: Expr::Literal(LiteralValue::Int(number.into())),
    }
}

fn wrap(name: &str, it: &mut IdedExpr) {
    *it = call(name, vec![std::mem::take(it)]);
}

/// Lets the rounds of `all` and `exists` go on after an error, as long as nothing is decided.
fn wrap_rounds(it: &mut ComprehensionExpr, number: usize) {
    let decides = |it: &IdedExpr| matches!(&it.expr, Expr::Call(it) if [operators::LOGICAL_AND, operators::LOGICAL_OR].contains(&it.func_name.as_str()));
    if !matches!(it.accu_init.expr, Expr::Literal(LiteralValue::Boolean(_))) || !decides(&it.loop_step) {
        return;
    }
    let so_far = IdedExpr {
        id: 0,
        expr: Expr::Ident(it.accu_var.clone()),
    };
    let step = std::mem::take(&mut it.loop_step);
    it.loop_step = call(KEEP, vec![step, literal(number), so_far]);
    let result = std::mem::take(&mut it.result);
    it.result = call(SETTLE, vec![result, literal(number), it.accu_init.clone()]);
}

fn wrap_loop(name: &str, it: &mut IdedExpr, number: usize, cost: usize) {
    *it = call(name, vec![std::mem::take(it), literal(number), literal(cost)]);
}

/// Makes an index of a field. The engine answers `false` for a field of what has none, and copies what it finds; and
/// `.?` it takes for `.`.
fn index(it: &mut IdedExpr) {
    match &mut it.expr {
        Expr::Select(select) if !select.test || is_optional(&select.operand) => {
            let field = IdedExpr {
                id: 0,
                expr: Expr::Literal(LiteralValue::String(select.field.as_str().into())),
            };
            let operand = std::mem::take(&mut *select.operand);
            *it = if select.test {
                let found = call(operators::OPT_INDEX, vec![operand, field]);
                call(PRESENT, vec![call(OPTIONALLY, vec![found])])
            } else {
                call(operators::INDEX, vec![operand, field])
            };
        }
        Expr::Call(it) if it.func_name == operators::OPT_SELECT => it.func_name = operators::OPT_INDEX.to_owned(),
        _ => {}
    }
}

/// Whether it looks for something that may not be there, or within that.
fn is_optional(it: &IdedExpr) -> bool {
    match &it.expr {
        Expr::Select(it) => is_optional(&it.operand),
        Expr::Call(it) => match it.func_name.as_str() {
            operators::OPT_INDEX | operators::OPT_SELECT | OPTIONALLY => true,
            operators::INDEX | SIZED => it.args.first().is_some_and(is_optional),
            _ => false,
        },
        _ => false,
    }
}

/// The variable that a chain of fields and indices begins with.
fn root_of(it: &IdedExpr) -> Option<&str> {
    match &it.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(it) => root_of(&it.operand),
        Expr::Call(it) if it.func_name == operators::INDEX => it.args.first().and_then(root_of),
        _ => None,
    }
}

impl Charger {
    fn charge(&mut self, it: &mut IdedExpr, around: Option<Around<'_>>) {
        // In every round the engine copies what it looks at outside of the macro's own item.
        if let (Some(around), Some(root)) = (around, root_of(it)) {
            let own = root == around.item || root == around.accumulator || Some(root) == around.second;
            if !own {
                self.inside(it, around);
                index(it);
                wrap(SIZED, it);
                return;
            }
        }
        let makes = match &mut it.expr {
            Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => false,
            Expr::Select(it) => {
                self.charge(&mut it.operand, around);
                false
            }
            Expr::List(it) => {
                it.elements.iter_mut().for_each(|it| self.charge(it, around));
                it.elements.len() > 1
            }
            Expr::Map(it) => {
                for entry in &mut it.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.charge(&mut entry.key, around);
                        self.charge(&mut entry.value, around);
                    }
                }
                true
            }
            Expr::Comprehension(it) => {
                let number = self.loops;
                self.loops += 1;
                let round = 1 + (parts(&it.loop_cond) + parts(&it.loop_step)) / PARTS_OF_A_ROUND;
                let makes_list = matches!(it.accu_init.expr, Expr::List(_) | Expr::Map(_));
                self.charge(&mut it.iter_range, around);
                self.charge(&mut it.accu_init, around);
                self.names.extend([it.accu_var.clone(), it.iter_var.clone()]);
                self.names.extend(it.iter_var2.clone());
                let own = Around {
                    accumulator: &it.accu_var,
                    item: &it.iter_var,
                    second: it.iter_var2.as_deref(),
                };
                for part in [&mut it.loop_cond, &mut it.loop_step, &mut it.result] {
                    self.charge(part, Some(own));
                }
                wrap_rounds(it, number);
                wrap_loop(BEGIN, &mut it.accu_init, number, 0);
                wrap_loop(
                    if makes_list { TICK_LIST } else { TICK },
                    &mut it.loop_cond,
                    number,
                    round,
                );
                false
            }
            Expr::Call(call) => {
                let accumulator = around.map(|it| it.accumulator);
                let appends = call.func_name == operators::ADD
                    && matches!(call.args.first().map(|it| &it.expr), Some(Expr::Ident(name)) if Some(name.as_str()) == accumulator);
                // `math` of `math.greatest` is no variable, and has to stay as it is.
                if let Some(target) = call.target.as_deref_mut()
                    && !matches!(&target.expr, Expr::Ident(name) if !self.names.contains(name))
                {
                    self.charge(target, around);
                }
                call.args.iter_mut().for_each(|it| self.charge(it, around));
                guard_call(call);
                let ours = match call.func_name.as_str() {
                    operators::EQUALS => Some(values::EQUAL),
                    operators::NOT_EQUALS => Some(values::DIFFERENT),
                    operators::IN => Some(values::CONTAINED),
                    operators::ADD if !appends => Some(values::ADD),
                    operators::SUBSTRACT => Some(values::SUBTRACT),
                    _ => None,
                };
                match (ours, call.args.len()) {
                    (Some(ours), 2) => call.func_name = ours.to_owned(),
                    (None, 1) if call.func_name == operators::NEGATE => call.func_name = values::NEGATE.to_owned(),
                    _ => {}
                }
                call.func_name.starts_with(|it: char| it.is_ascii_alphabetic())
            }
        };
        index(it);
        let is_index = matches!(&it.expr, Expr::Call(it) if [operators::OPT_INDEX, operators::INDEX].contains(&it.func_name.as_str()));
        if is_index && is_optional(it) {
            wrap(OPTIONALLY, it);
        }
        if makes {
            wrap(SIZED, it);
        }
    }

    /// Charges the indices of a chain that is paid for as a whole.
    fn inside(&mut self, it: &mut IdedExpr, around: Around<'_>) {
        match &mut it.expr {
            Expr::Select(it) => {
                self.inside(&mut it.operand, around);
                index(&mut it.operand);
            }
            Expr::Call(it) => {
                if let [first, rest @ ..] = it.args.as_mut_slice() {
                    self.inside(first, around);
                    index(first);
                    rest.iter_mut().for_each(|it| self.charge(it, Some(around)));
                }
            }
            _ => {}
        }
    }
}

fn guard_call(call: &mut CallExpr) {
    let name = call.func_name.as_str();
    // Two lists are compared item by item: no more than the larger one with itself.
    let of_sets = matches!(call.target.as_deref().map(|it| &it.expr), Some(Expr::Ident(name)) if name == "sets");
    if of_sets {
        call.args.iter_mut().for_each(|it| wrap(PAIRS, it));
        return;
    }
    if MULTIPLIERS.contains(&name) {
        let target = call.target.as_deref_mut();
        target.into_iter().chain(&mut call.args).for_each(|it| wrap(SHORT, it));
    }
    let with = match name {
        "format" => FORMAT,
        "distinct" => PAIRS,
        _ if TEARERS.contains(&name) => LONG,
        _ => return,
    };
    if let Some(it) = call.target.as_deref_mut().or(call.args.first_mut()) {
        wrap(with, it);
    }
}

/// Adds the functions that pay.
pub fn add_functions(root: &mut Context<'static>) {
    root.add_function(BEGIN, |ftx: &FunctionContext| {
        cost::begin(number(ftx));
        argument(ftx)
    });
    root.add_function(TICK, |ftx: &FunctionContext| {
        pay(ftx, cost(ftx))?;
        argument(ftx)
    });
    root.add_function(TICK_LIST, |ftx: &FunctionContext| {
        pay(ftx, cost(ftx) + cost::round(number(ftx)) / 10)?;
        argument(ftx)
    });
    root.add_function(KEEP, |ftx: &FunctionContext| {
        argument(ftx).or_else(|error| {
            cost::keep(number(ftx), error);
            let so_far = ftx.args.get(2).ok_or_else(ExecutionError::missing_argument_or_target)?;
            ftx.ptx.resolve(so_far)
        })
    });
    root.add_function(SETTLE, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        let undecided = ftx.args.get(2).ok_or_else(ExecutionError::missing_argument_or_target)?;
        match cost::kept(number(ftx)) {
            Some(error) if ftx.ptx.resolve(undecided)? == value => Err(error),
            _ => Ok(value),
        }
    });
    root.add_function(OPTIONALLY, |ftx: &FunctionContext| {
        let answer = argument(ftx);
        let (Err(ExecutionError::NoSuchOverload), Some(expression)) = (&answer, ftx.args.first()) else {
            return answer;
        };
        // Either the operand has no parts, or there is no operand, or nothing to look for.
        let Expr::Call(CallExpr { args, .. }) = &expression.expr else {
            return answer;
        };
        // They are computed once more, and what is in them may be, too.
        pay(ftx, AGAIN_COST)?;
        for it in args {
            // Said in another way, the same error lets those around not look for it again.
            ftx.ptx.resolve(it).map_err(|_| failed("", "no such overload"))?;
        }
        Ok(Value::Opaque(Arc::new(OptionalValue::none())))
    });
    root.add_function(PRESENT, |ftx: &FunctionContext| {
        let Value::Opaque(it) = argument(ftx)? else {
            return Err(ExecutionError::NoSuchOverload);
        };
        let optional: Option<&OptionalValue> = it.downcast_ref();
        Ok(Value::Bool(optional.is_some_and(|it| it.value().is_some())))
    });
    root.add_function(SIZED, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        pay(ftx, size(&value))?;
        Ok(value)
    });
    root.add_function(LONG, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        if let Value::String(text) = &value {
            pay(ftx, text.len() as u64)?;
        }
        Ok(value)
    });
    root.add_function(PAIRS, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        if let Value::List(items) = &value {
            pay(ftx, (items.len() as u64).saturating_mul(size(&value)) / 10)?;
        }
        Ok(value)
    });
    root.add_function(SHORT, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        if size(&value) > SHORT_MAX {
            return Err(failed("operation cancelled", "the value is too long for this"));
        }
        Ok(value)
    });
    root.add_function(FORMAT, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        let digits = |it: &str| it.bytes().take_while(u8::is_ascii_digit).count();
        match &value {
            Value::String(text) if text.split("%.").skip(1).any(|it| digits(it) > 2) => {
                Err(failed("format", "the precision is too high"))
            }
            _ => Ok(value),
        }
    });
}

/// The first argument. What the engine extracts itself loses the error that there was.
pub fn argument(ftx: &FunctionContext) -> Result<Value, ExecutionError> {
    let expression = ftx
        .args
        .first()
        .ok_or_else(ExecutionError::missing_argument_or_target)?;
    ftx.ptx.resolve(expression)
}

/// The macro's number, the second argument.
fn number(ftx: &FunctionContext) -> usize {
    literal_argument(ftx, 1)
}

/// What a round costs, the third argument.
fn cost(ftx: &FunctionContext) -> u64 {
    literal_argument(ftx, 2) as u64
}

fn literal_argument(ftx: &FunctionContext, place: usize) -> usize {
    match ftx.args.get(place).map(|it| &it.expr) {
        Some(Expr::Literal(LiteralValue::Int(it))) => usize::try_from(*it.inner()).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

pub fn failed(function: &str, message: &str) -> ExecutionError {
    ExecutionError::function_error(function, message)
}

pub fn pay(_: &FunctionContext, cost: u64) -> Result<(), ExecutionError> {
    if cost::pay(cost) {
        Ok(())
    } else {
        Err(failed("operation cancelled", "actual cost limit exceeded"))
    }
}

/// Whether copying a value takes longer than looking at it.
pub fn is_composite(value: &Value) -> bool {
    /// So much of a text is copied in no time.
    const SHORT: usize = 100;
    match value {
        Value::List(_) | Value::Map(_) => true,
        Value::String(it) => it.len() > SHORT,
        Value::Bytes(it) => it.len() > SHORT,
        _ => false,
    }
}

/// What a value costs who copies it.
pub fn size(value: &Value) -> u64 {
    match value {
        Value::List(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Map(it) => {
            let key = |it: &Key| match it {
                Key::String(text) => text.len() as u64 / 10,
                _ => 0,
            };
            1 + it.map.iter().map(|(name, value)| key(name) + size(value)).sum::<u64>()
        }
        Value::String(text) => 1 + text.len() as u64 / 10,
        Value::Bytes(bytes) => 1 + bytes.len() as u64 / 10,
        Value::Opaque(it) => match it.downcast_ref::<OptionalValue>() {
            Some(it) => 1 + it.value().map_or(0, size),
            None => 1 + functions::length(&**it) as u64 / 10,
        },
        _ => 1,
    }
}
