//! Functions of lists, and those that texts have too.
//! Upstream: Kubernetes' `cel/library/lists.go` and cel-go's `ext/lists.go`, version 3.

use std::{cmp::Ordering, sync::Arc};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::{Arguments, This},
};

use super::{conversions::type_name, text};
use crate::{
    charge::{failed, pay, size},
    macros,
    values::{add, equals, is_ordered, order},
};

/// Sorts by what stands first in each of a list of pairs, and keeps what stands second.
pub const SORT_PAIRS: &str = "@sortPairs";

type Items = Arc<Vec<Value>>;

fn list(items: Vec<Value>) -> Value {
    Value::List(Arc::new(items))
}

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    root.add_function("isSorted", |This(items): This<Items>| {
        let mut sorted = true;
        for pair in items.windows(2) {
            compare("isSorted", &pair[0], &pair[1])?;
            sorted &= order(&pair[0], &pair[1]) != Some(Ordering::Greater);
        }
        Ok::<_, ExecutionError>(Value::Bool(sorted))
    });
    root.add_function("sum", |This(items): This<Items>| match items.as_slice() {
        [] => Ok(Value::Int(0)),
        items => items[1..].iter().try_fold(number(&items[0])?, |sum, it| {
            add(&sum, number(it).as_ref().map_err(Clone::clone)?)
        }),
    });
    root.add_function(
        "min",
        |ftx: &FunctionContext, This(it): This<Value>, Arguments(args): Arguments| {
            extreme(ftx, it, &args, Ordering::Less)
        },
    );
    root.add_function(
        "max",
        |ftx: &FunctionContext, This(it): This<Value>, Arguments(args): Arguments| {
            extreme(ftx, it, &args, Ordering::Greater)
        },
    );
    root.add_function("sort", |ftx: &FunctionContext, This(items): This<Items>| {
        let pairs = items.iter().map(|it| (it.clone(), it.clone())).collect();
        sort(ftx, "sort", pairs)
    });
    root.add_function(SORT_PAIRS, |ftx: &FunctionContext| {
        let items = macros::items(ftx)?;
        let pairs = items.iter().filter_map(|it| match it {
            Value::List(it) => Some((it.first()?.clone(), it.get(1)?.clone())),
            _ => None,
        });
        sort(ftx, "sortBy", pairs.collect())
    });
    root.add_function("distinct", |This(items): This<Items>| {
        let mut kept: Vec<Value> = Vec::new();
        for item in items.iter() {
            if !kept.iter().any(|it| equals(it, item)) {
                kept.push(item.clone());
            }
        }
        Ok::<_, ExecutionError>(list(kept))
    });
    root.add_function("flatten", |This(items): This<Items>, Arguments(args): Arguments| {
        let depth = match args.as_slice() {
            [] => 1,
            [Value::Int(it)] => usize::try_from(*it).map_err(|_| failed("", "level must be non-negative"))?,
            _ => return Err(ExecutionError::NoSuchOverload),
        };
        let mut flat = Vec::new();
        flatten(&items, depth, &mut flat);
        Ok(list(flat))
    });
    root.add_function("lists.range", |ftx: &FunctionContext, count: i64| {
        // Paid for before it is there.
        pay(ftx, u64::try_from(count).unwrap_or_default())?;
        Ok::<_, ExecutionError>(list((0..count).map(Value::Int).collect()))
    });
    // Of lists only: texts have it in no version of Kubernetes so far.
    root.add_function("reverse", |This(items): This<Items>| {
        Ok::<_, ExecutionError>(list(items.iter().rev().cloned().collect()))
    });
    root.add_function(
        "indexOf",
        |This(it): This<Value>, Arguments(args): Arguments| match &it {
            Value::String(it) => text::index_of(it, &args),
            Value::List(items) => place(&args, |it| items.iter().position(|item| equals(item, it))),
            _ => Err(ExecutionError::NoSuchOverload),
        },
    );
    root.add_function(
        "lastIndexOf",
        |This(it): This<Value>, Arguments(args): Arguments| match &it {
            Value::String(it) => text::last_index_of(it, &args),
            Value::List(items) => place(&args, |it| items.iter().rposition(|item| equals(item, it))),
            _ => Err(ExecutionError::NoSuchOverload),
        },
    );
}

fn place(args: &[Value], find: impl Fn(&Value) -> Option<usize>) -> Result<Value, ExecutionError> {
    let [item] = args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    Ok(Value::Int(
        find(item).and_then(|it| i64::try_from(it).ok()).unwrap_or(-1),
    ))
}

/// What can be added up.
fn number(value: &Value) -> Result<Value, ExecutionError> {
    match value {
        Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Duration(_) => Ok(value.clone()),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// Whether two values can be put in order.
fn compare(function: &str, one: &Value, other: &Value) -> Result<(), ExecutionError> {
    if is_ordered(one, other) {
        Ok(())
    } else {
        Err(failed("", &format!("no such overload: {function}(list)")))
    }
}

/// The least or the greatest of a list, or of the arguments. What has no order, as what is not a number, is neither.
fn extreme(ftx: &FunctionContext, it: Value, args: &[Value], wanted: Ordering) -> Result<Value, ExecutionError> {
    let items = match it {
        Value::List(items) if args.is_empty() || ftx.this.is_none() && args.len() == 1 => items,
        // Called as a function: the first is among the arguments.
        _ if ftx.this.is_none() => Arc::new(args.to_vec()),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let Some((first, rest)) = items.split_first() else {
        return Err(failed("", &format!("{} called on empty list", ftx.name)));
    };
    compare(ftx.name, first, first)?;
    let mut found = first;
    for item in rest {
        compare(ftx.name, item, found)?;
        if order(item, found) == Some(wanted) {
            found = item;
        }
    }
    Ok(found.clone())
}

/// Sorts pairs by their first, and gives the second of each.
fn sort(ftx: &FunctionContext, function: &str, mut pairs: Vec<(Value, Value)>) -> Result<Value, ExecutionError> {
    let count = pairs.len() as u64;
    let keys: u64 = pairs.iter().map(|(key, _)| size(key)).sum();
    pay(ftx, keys.saturating_mul(u64::from(count.max(1).ilog2())) / 10)?;
    if let [(first, _), rest @ ..] = pairs.as_slice() {
        if !is_ordered(first, first) {
            return Err(failed("", "list elements must be comparable"));
        }
        for (key, _) in rest {
            // Whole numbers and fractions together have no order that a sort can rely on:
            // rounding makes equal what is not.
            if type_name(first) != type_name(key) {
                return Err(failed(
                    "",
                    &format!("{function}: list elements must have the same type"),
                ));
            }
        }
    }
    // What is not a number has no place; what stands before it stays there.
    let rank = |it: &Value| matches!(it, Value::Float(it) if it.is_nan());
    pairs.sort_by(|(one, _), (other, _)| order(one, other).unwrap_or_else(|| rank(one).cmp(&rank(other))));
    Ok(list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn flatten(items: &[Value], depth: usize, flat: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => flatten(inner, depth - 1, flat),
            item => flat.push(item.clone()),
        }
    }
}
