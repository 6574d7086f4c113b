//! Puts what pays into an expression: every round of a macro, everything that is made, and what the engine copies to look
//! at it.

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, IdedExpr, Value,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators},
};

use crate::{
    check::{call, for_each_child},
    purse,
};

/// Before the first round of a macro.
const BEGIN: &str = "@begin";
/// Around the condition of a macro: one round.
const TICK: &str = "@tick";
/// The same for a macro that makes a list: the engine copies what is there in every round.
const TICK_LIST: &str = "@tickList";
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
/// Takes no number with an exponent that would.
const QUANTITY: &str = "@quantity";
/// Replaces characters that the engine would cut in two.
const ASCII: &str = "@ascii";

/// Takes no number whose negative is none: the engine negates it all the same.
const NEGATABLE: &str = "@negatable";

/// What multiplies its arguments' sizes takes only short ones: it would be paid for after it was made.
const MULTIPLIERS: &[&str] = &["replace", "join", "format"];
/// What makes a value of each character.
const TEARERS: &[&str] = &["split", "findAll"];
const SHORT_MAX: u64 = 2000;

/// How deep an expression nests.
pub fn depth(it: &IdedExpr) -> usize {
    let mut deepest = 0;
    for_each_child(it, &mut |it| deepest = deepest.max(depth(it)));
    deepest + 1
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

fn wrap_loop(name: &str, it: &mut IdedExpr, number: usize) {
    *it = call(name, vec![std::mem::take(it), literal(number)]);
}

/// Makes an index of a field. The engine answers `false` for a field of what has none, and copies what it finds; and
/// `.?` it takes for `.`.
fn index(it: &mut IdedExpr) {
    match &mut it.expr {
        Expr::Select(select) if !select.test => {
            let field = IdedExpr {
                id: 0,
                expr: Expr::Literal(LiteralValue::String(select.field.as_str().into())),
            };
            let operand = std::mem::take(&mut *select.operand);
            *it = call(operators::INDEX, vec![operand, field]);
        }
        Expr::Call(it) if it.func_name == operators::OPT_SELECT => it.func_name = operators::OPT_INDEX.to_owned(),
        _ => {}
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
                let makes_list = matches!(it.accu_init.expr, Expr::List(_));
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
                wrap_loop(BEGIN, &mut it.accu_init, number);
                wrap_loop(if makes_list { TICK_LIST } else { TICK }, &mut it.loop_cond, number);
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
                let is_function = call.func_name.starts_with(|it: char| it.is_ascii_alphabetic());
                is_function || call.func_name == operators::ADD && !appends
            }
        };
        index(it);
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
        "quantity" | "isQuantity" => QUANTITY,
        "distinct" => PAIRS,
        operators::NEGATE => NEGATABLE,
        "validate" => {
            call.args.iter_mut().for_each(|it| wrap(ASCII, it));
            return;
        }
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
        purse::begin(number(ftx));
        argument(ftx)
    });
    root.add_function(TICK, |ftx: &FunctionContext| {
        pay(ftx, 1)?;
        argument(ftx)
    });
    root.add_function(TICK_LIST, |ftx: &FunctionContext| {
        pay(ftx, 1 + purse::round(number(ftx)) / 10)?;
        argument(ftx)
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
    root.add_function(QUANTITY, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        let too_big = |text: &str| {
            let exponent = text.rsplit(['e', 'E']).next().unwrap_or_default();
            text.len() > 100 || exponent.len() < text.len() && exponent.trim_start_matches(['+', '-']).len() > 3
        };
        match &value {
            Value::String(text) if too_big(text) => Err(failed("quantity", "the number is too big")),
            _ => Ok(value),
        }
    });
    root.add_function(NEGATABLE, |ftx: &FunctionContext| match argument(ftx)? {
        Value::Int(i64::MIN) => Err(failed("-", "integer overflow")),
        value => Ok(value),
    });
    root.add_function(ASCII, |ftx: &FunctionContext| {
        let value = argument(ftx)?;
        match &value {
            // No format that the engine knows takes either.
            Value::String(text) if !text.is_ascii() => Ok(text
                .chars()
                .map(|it| if it.is_ascii() { it } else { '\u{1}' })
                .collect::<String>()
                .into()),
            _ => Ok(value),
        }
    });
}

fn argument(ftx: &FunctionContext) -> Result<Value, ExecutionError> {
    let expression = ftx
        .args
        .first()
        .ok_or_else(ExecutionError::missing_argument_or_target)?;
    ftx.ptx.resolve(expression)
}

/// The macro's number, the second argument.
fn number(ftx: &FunctionContext) -> usize {
    match ftx.args.get(1).map(|it| &it.expr) {
        Some(Expr::Literal(LiteralValue::Int(it))) => usize::try_from(*it.inner()).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

pub fn failed(function: &str, message: &str) -> ExecutionError {
    ExecutionError::function_error(function, message)
}

pub fn pay(_: &FunctionContext, cost: u64) -> Result<(), ExecutionError> {
    if purse::pay(cost) {
        Ok(())
    } else {
        Err(failed("operation cancelled", "actual cost limit exceeded"))
    }
}

fn size(value: &Value) -> u64 {
    match value {
        Value::List(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Map(it) => 1 + it.map.values().map(size).sum::<u64>(),
        Value::String(text) => 1 + text.len() as u64 / 10,
        Value::Bytes(bytes) => 1 + bytes.len() as u64 / 10,
        _ => 1,
    }
}
