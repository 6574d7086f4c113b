//! Macros that Kubernetes has and the engine's parser does not: those of two variables, `sortBy`, and those of optional
//! values. They become macros of one variable, over what the functions here make.
//! Upstream: cel-go `ext/comprehensions.go`, `ext/lists.go` and `cel/library.go`.

use std::{collections::HashMap, mem, sync::Arc};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, IdedExpr, Value,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, operators},
    extractors::This,
    objects::{Key, Map, OptionalValue},
};

use crate::{
    charge::{argument, failed, pay, size},
    check::call,
    functions::SORT_PAIRS,
};

/// The keys or places of what is gone through, each with what is there.
const ENTRIES: &str = "@entries";
/// A list, and nothing else.
const ITEMS: &str = "@items";
/// A map with one entry more.
const INSERT: &str = "@insert";
/// A map with the entries of another.
const INSERT_ALL: &str = "@insertAll";
/// An optional value as a list of one or none.
const SOME: &str = "@some";
/// A list of one or none as an optional value.
const FIRST: &str = "@first";
/// A list of an optional value or none as that.
const FIRST_FLAT: &str = "@firstFlat";
/// What the engine's own macros call what they make.
const RESULT: &str = "@result";

/// Replaces the macros in an expression by what they stand for.
pub fn expand(expression: &mut IdedExpr) {
    Expander { pairs: 0 }.expand(expression);
}

struct Expander {
    /// How many names for pairs there are.
    pairs: usize,
}

fn made(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn ident(name: &str) -> IdedExpr {
    made(Expr::Ident(name.to_owned()))
}

fn literal(it: LiteralValue) -> IdedExpr {
    made(Expr::Literal(it))
}

fn list(elements: Vec<IdedExpr>) -> IdedExpr {
    made(Expr::List(ListExpr::new(elements)))
}

fn conditional(filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
    match filter {
        Some(filter) => call(operators::CONDITIONAL, vec![filter, step, ident(RESULT)]),
        None => step,
    }
}

fn comprehension(
    range: IdedExpr,
    variable: &str,
    init: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
) -> IdedExpr {
    made(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: variable.to_owned(),
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result,
    })))
}

fn always() -> IdedExpr {
    literal(LiteralValue::Boolean(true.into()))
}

/// A list of what an expression makes of each item.
fn map(range: IdedExpr, variable: &str, filter: Option<IdedExpr>, item: IdedExpr) -> IdedExpr {
    let step = call(operators::ADD, vec![ident(RESULT), list(vec![item])]);
    comprehension(
        range,
        variable,
        list(Vec::new()),
        always(),
        conditional(filter, step),
        ident(RESULT),
    )
}

fn name_of(it: &IdedExpr) -> Option<&str> {
    match &it.expr {
        Expr::Ident(name) => Some(name),
        _ => None,
    }
}

impl Expander {
    fn expand(&mut self, it: &mut IdedExpr) {
        for_each_child_mut(it, &mut |it| self.expand(it));
        let Expr::Call(macro_call) = &mut it.expr else { return };
        let Some(target) = macro_call.target.as_deref_mut() else {
            return;
        };
        if let Some(expanded) = self.one(&macro_call.func_name, target, &mut macro_call.args) {
            *it = expanded;
        }
    }

    /// What one call stands for; `None` if it is no macro, or not written as one: then no function is called so.
    fn one(&mut self, name: &str, target: &mut IdedExpr, args: &mut [IdedExpr]) -> Option<IdedExpr> {
        match (name, &mut *args) {
            ("optMap" | "optFlatMap", [variable, item]) => {
                let variable = name_of(variable)?.to_owned();
                let some = call(SOME, vec![mem::take(target)]);
                let items = map(some, &variable, None, mem::take(item));
                let first = if name == "optMap" { FIRST } else { FIRST_FLAT };
                return Some(call(first, vec![items]));
            }
            ("sortBy", [variable, key]) => {
                let variable = name_of(variable)?.to_owned();
                let pair = list(vec![mem::take(key), ident(&variable)]);
                let items = call(ITEMS, vec![mem::take(target)]);
                return Some(call(SORT_PAIRS, vec![map(items, &variable, None, pair)]));
            }
            _ => {}
        }
        let [key, value, rest @ ..] = args else { return None };
        let (key, value) = (name_of(key)?.to_owned(), name_of(value)?.to_owned());
        let known = match name {
            "all" | "exists" | "existsOne" | "exists_one" => rest.len() == 1,
            "transformList" | "transformMap" | "transformMapEntry" => matches!(rest.len(), 1 | 2),
            _ => false,
        };
        if !known || key == value {
            return None;
        }
        let pair = format!("@pair{}", self.pairs);
        self.pairs += 1;
        for part in rest.iter_mut() {
            substitute(part, &key, &pair, 0);
            substitute(part, &value, &pair, 1);
        }
        let range = call(ENTRIES, vec![mem::take(target)]);
        let step = mem::take(rest.last_mut()?);
        let filter = (rest.len() == 2).then(|| mem::take(&mut rest[0]));
        let undecided = |it: IdedExpr| call(operators::NOT_STRICTLY_FALSE, vec![it]);
        let boolean = |it: bool| literal(LiteralValue::Boolean(it.into()));
        Some(match name {
            "all" => {
                let step = call(operators::LOGICAL_AND, vec![ident(RESULT), step]);
                comprehension(
                    range,
                    &pair,
                    boolean(true),
                    undecided(ident(RESULT)),
                    step,
                    ident(RESULT),
                )
            }
            "exists" => {
                let step = call(operators::LOGICAL_OR, vec![ident(RESULT), step]);
                let condition = undecided(call(operators::LOGICAL_NOT, vec![ident(RESULT)]));
                comprehension(range, &pair, boolean(false), condition, step, ident(RESULT))
            }
            "existsOne" | "exists_one" => {
                let number = |it: i64| literal(LiteralValue::Int(it.into()));
                let more = call(operators::ADD, vec![ident(RESULT), number(1)]);
                let result = call(operators::EQUALS, vec![ident(RESULT), number(1)]);
                comprehension(range, &pair, number(0), always(), conditional(Some(step), more), result)
            }
            "transformList" => map(range, &pair, filter, step),
            _ => {
                let step = if name == "transformMap" {
                    let key = index(&pair, 0);
                    call(INSERT, vec![ident(RESULT), key, step])
                } else {
                    call(INSERT_ALL, vec![ident(RESULT), step])
                };
                let empty = made(Expr::Map(MapExpr::default()));
                comprehension(range, &pair, empty, always(), conditional(filter, step), ident(RESULT))
            }
        })
    }
}

fn index(pair: &str, place: i64) -> IdedExpr {
    call(
        operators::INDEX,
        vec![ident(pair), literal(LiteralValue::Int(place.into()))],
    )
}

/// Lets a name mean one of a pair, but where a macro has a variable of that name.
fn substitute(it: &mut IdedExpr, name: &str, pair: &str, place: i64) {
    match &mut it.expr {
        Expr::Ident(found) if found == name => *it = index(pair, place),
        Expr::Comprehension(inner) if inner.iter_var == name || inner.accu_var == name => {
            substitute(&mut inner.iter_range, name, pair, place);
            substitute(&mut inner.accu_init, name, pair, place);
        }
        _ => for_each_child_mut(it, &mut |it| substitute(it, name, pair, place)),
    }
}

fn for_each_child_mut(expression: &mut IdedExpr, visit: &mut dyn FnMut(&mut IdedExpr)) {
    let entry = |entry: &mut EntryExpr, visit: &mut dyn FnMut(&mut IdedExpr)| match entry {
        EntryExpr::StructField(it) => visit(&mut it.value),
        EntryExpr::MapEntry(it) => {
            visit(&mut it.key);
            visit(&mut it.value);
        }
    };
    match &mut expression.expr {
        Expr::Call(CallExpr { target, args, .. }) => {
            target.iter_mut().for_each(|it| visit(it));
            args.iter_mut().for_each(visit);
        }
        Expr::Comprehension(it) => {
            let it = &mut **it;
            let parts = [
                &mut it.iter_range,
                &mut it.accu_init,
                &mut it.loop_cond,
                &mut it.loop_step,
                &mut it.result,
            ];
            parts.into_iter().for_each(visit);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(visit),
        Expr::Select(select) => visit(&mut select.operand),
        Expr::Map(map) => map.entries.iter_mut().for_each(|it| entry(&mut it.expr, visit)),
        Expr::Struct(it) => it.entries.iter_mut().for_each(|it| entry(&mut it.expr, visit)),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

/// Adds the functions that the macros stand for.
pub fn add_functions(root: &mut Context<'static>) {
    root.add_function(ENTRIES, |ftx: &FunctionContext| {
        let it = argument(ftx)?;
        pay(ftx, size(&it))?;
        let pair = |key: Value, value: &Value| Value::List(Arc::new(vec![key, value.clone()]));
        let entries: Vec<Value> = match &it {
            Value::List(items) => (0..)
                .zip(items.iter())
                .map(|(at, it)| pair(Value::Int(at), it))
                .collect(),
            Value::Map(it) => it.map.iter().map(|(key, value)| pair(key_value(key), value)).collect(),
            _ => return Err(ExecutionError::NoSuchOverload),
        };
        Ok(Value::List(Arc::new(entries)))
    });
    root.add_function(INSERT, |ftx: &FunctionContext, map: Value, key: Value, value: Value| {
        insert(ftx, &map, vec![(key_of(key)?, value)])
    });
    root.add_function(
        INSERT_ALL,
        |ftx: &FunctionContext, map: Value, entries: Value| match &entries {
            Value::Map(entries) => {
                let entries = entries.map.iter().map(|(key, value)| (key.clone(), value.clone()));
                insert(ftx, &map, entries.collect())
            }
            _ => Err(ExecutionError::NoSuchOverload),
        },
    );
    root.add_function(SOME, |ftx: &FunctionContext| {
        let it = argument(ftx)?;
        let some: Vec<Value> = optional(&it)?.value().cloned().into_iter().collect();
        Ok::<_, ExecutionError>(Value::List(Arc::new(some)))
    });
    // What is no optional value has one: itself.
    root.add_function("orValue", |This(it): This<Value>, other: Value| {
        Ok::<_, ExecutionError>(match optional(&it) {
            Ok(it) => it.value().cloned().unwrap_or(other),
            Err(_) => it,
        })
    });
    root.add_function(FIRST, |ftx: &FunctionContext| {
        let first = items(ftx)?
            .first()
            .cloned()
            .map_or_else(OptionalValue::none, OptionalValue::of);
        Ok::<_, ExecutionError>(Value::Opaque(Arc::new(first)))
    });
    root.add_function(FIRST_FLAT, |ftx: &FunctionContext| {
        // The engine takes a value out of its optional when it copies that into a list, and leaves what has none.
        let items = items(ftx)?;
        let first = items.first().filter(|it| optional(it).is_err());
        let first = first.cloned().map_or_else(OptionalValue::none, OptionalValue::of);
        Ok::<_, ExecutionError>(Value::Opaque(Arc::new(first)))
    });
    root.add_function(ITEMS, |ftx: &FunctionContext| items(ftx).map(Value::List));
}

/// The first argument, which has to be a list.
pub fn items(ftx: &FunctionContext) -> Result<Arc<Vec<Value>>, ExecutionError> {
    match argument(ftx)? {
        Value::List(items) => Ok(items),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn optional(value: &Value) -> Result<&OptionalValue, ExecutionError> {
    match value {
        Value::Opaque(it) => it.downcast_ref().ok_or(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn key_value(key: &Key) -> Value {
    match key {
        Key::Int(it) => Value::Int(*it),
        Key::Uint(it) => Value::UInt(*it),
        Key::Bool(it) => Value::Bool(*it),
        Key::String(it) => Value::String(it.clone()),
    }
}

fn key_of(value: Value) -> Result<Key, ExecutionError> {
    value.try_into().map_err(ExecutionError::UnsupportedKeyType)
}

/// A map with more entries. The engine copied it to hand it over, which is paid for.
fn insert(ftx: &FunctionContext, map: &Value, entries: Vec<(Key, Value)>) -> Result<Value, ExecutionError> {
    pay(ftx, size(map) / 10)?;
    let Value::Map(Map { map }) = map else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let mut map: HashMap<Key, Value> = HashMap::clone(map);
    for (key, value) in entries {
        if map.contains_key(&key) {
            return Err(failed("", "insert failed: the key already exists"));
        }
        map.insert(key, value);
    }
    Ok(Value::Map(map.into()))
}
