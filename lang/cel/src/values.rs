//! When two values are equal and which comes first, as cel-go has it: numbers compare as numbers whatever their types.
//! The operators that ask it take the place of the engine's, which compares the types first.

use std::cmp::Ordering;

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    objects::{Key, Map, OptionalValue},
};

use crate::charge::{argument, failed, is_composite, pay, size};

/// The operator `==`.
pub const EQUAL: &str = "@equal";
/// The operator `!=`.
pub const DIFFERENT: &str = "@different";
/// The operator `in`.
pub const CONTAINED: &str = "@contained";
/// The operator `+`.
pub const ADD: &str = "@add";
/// The operator `-`.
pub const SUBTRACT: &str = "@subtract";

/// The operator `-` before a value.
pub const NEGATE: &str = "@negate";

/// Whether two values are the same. What has another type is another value, numbers aside.
/// Upstream: cel-go `common/types`, the methods `Equal`.
pub fn equals(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| equals(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            let has = |(key, value): (&Key, &Value)| field(other, key).is_some_and(|it| equals(value, it));
            one.map.len() == other.map.len() && one.map.iter().all(has)
        }
        (Value::Opaque(one), Value::Opaque(other)) => {
            match (
                one.downcast_ref::<OptionalValue>(),
                other.downcast_ref::<OptionalValue>(),
            ) {
                (Some(one), Some(other)) => match (one.value(), other.value()) {
                    (Some(one), Some(other)) => equals(one, other),
                    (one, other) => one.is_none() && other.is_none(),
                },
                _ => one.opaque_eq(&**other),
            }
        }
        (Value::Null, Value::Null) => true,
        _ => order(one, other) == Some(Ordering::Equal),
    }
}

/// What a map has under a key. Whole numbers are the same key, signed or not.
pub fn field<'m>(map: &'m Map, key: &Key) -> Option<&'m Value> {
    map.get(key)
}

/// Which of two values comes first; `None` where neither does: they have no order, or one is not a number.
/// Upstream: cel-go `common/types`, the methods `Compare`.
pub fn order(one: &Value, other: &Value) -> Option<Ordering> {
    use Value as It;
    match (one, other) {
        (It::Int(one), It::Int(other)) => Some(one.cmp(other)),
        (It::UInt(one), It::UInt(other)) => Some(one.cmp(other)),
        (It::Float(one), It::Float(other)) => one.partial_cmp(other),
        (It::Int(one), It::UInt(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (It::UInt(one), It::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (It::Int(one), It::Float(other)) => (*one as f64).partial_cmp(other),
        (It::Float(one), It::Int(other)) => one.partial_cmp(&(*other as f64)),
        (It::UInt(one), It::Float(other)) => (*one as f64).partial_cmp(other),
        (It::Float(one), It::UInt(other)) => one.partial_cmp(&(*other as f64)),
        (It::Bool(one), It::Bool(other)) => Some(one.cmp(other)),
        (It::String(one), It::String(other)) => Some(one.cmp(other)),
        (It::Bytes(one), It::Bytes(other)) => Some(one.cmp(other)),
        (It::Duration(one), It::Duration(other)) => Some(one.cmp(other)),
        (It::Timestamp(one), It::Timestamp(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

/// Whether values of these types have an order, whatever they are.
pub fn is_ordered(one: &Value, other: &Value) -> bool {
    let is_number = |it: &Value| matches!(it, Value::Int(_) | Value::UInt(_) | Value::Float(_));
    is_number(one) && is_number(other) || order(one, other).is_some()
}

/// Adds the operators.
pub fn add_operators(root: &mut Context<'static>) {
    root.add_function(EQUAL, |ftx: &FunctionContext| {
        let (one, other) = operands(ftx)?;
        Ok::<_, ExecutionError>(Value::Bool(equals(&one, &other)))
    });
    root.add_function(DIFFERENT, |ftx: &FunctionContext| {
        let (one, other) = operands(ftx)?;
        Ok::<_, ExecutionError>(Value::Bool(!equals(&one, &other)))
    });
    root.add_function(CONTAINED, |ftx: &FunctionContext| {
        let (item, whole) = operands(ftx)?;
        match &whole {
            Value::List(items) => Ok(Value::Bool(items.iter().any(|it| equals(it, &item)))),
            Value::Map(map) => Ok(Value::Bool(key_of(&item).is_some_and(|key| field(map, &key).is_some()))),
            _ => Err(ExecutionError::NoSuchOverload),
        }
    });
    root.add_function(ADD, |ftx: &FunctionContext| {
        let (one, other) = both(ftx)?;
        let sum = add(&one, &other)?;
        pay(ftx, size(&sum))?;
        Ok(sum)
    });
    // The engine negates what is true or false, and the least number, which has no negative.
    root.add_function(NEGATE, |ftx: &FunctionContext| match argument(ftx)? {
        Value::Int(it) => it.checked_neg().map(Value::Int).ok_or_else(|| overflow("integer")),
        Value::Float(it) => Ok(Value::Float(-it)),
        Value::Duration(it) => {
            let nanoseconds = it.num_nanoseconds().and_then(i64::checked_neg);
            let negated = nanoseconds.map(|it| Value::Duration(chrono::Duration::nanoseconds(it)));
            negated.ok_or_else(|| overflow("integer"))
        }
        _ => Err(ExecutionError::NoSuchOverload),
    });
    root.add_function(SUBTRACT, |ftx: &FunctionContext| {
        let (one, other) = both(ftx)?;
        subtract(&one, &other)
    });
}

fn both(ftx: &FunctionContext) -> Result<(Value, Value), ExecutionError> {
    let [one, other] = ftx.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    Ok((ftx.ptx.resolve(one)?, ftx.ptx.resolve(other)?))
}

/// Both sides of a comparison. The engine copies what has parts to hand it over, which is paid for.
fn operands(ftx: &FunctionContext) -> Result<(Value, Value), ExecutionError> {
    let (one, other) = both(ftx)?;
    for it in [&one, &other] {
        if is_composite(it) {
            pay(ftx, size(it))?;
        }
    }
    Ok((one, other))
}

/// A value as the key of a map; a fraction is none.
fn key_of(value: &Value) -> Option<Key> {
    match value {
        Value::Int(it) => Some(Key::Int(*it)),
        Value::UInt(it) => Some(Key::Uint(*it)),
        Value::Bool(it) => Some(Key::Bool(*it)),
        Value::String(it) => Some(Key::String(it.clone())),
        // Exactly below 2^53, where every whole number is one of them.
        Value::Float(it) if it.fract() == 0.0 && it.abs() < 9_007_199_254_740_992.0 => Some(Key::Int(*it as i64)),
        _ => None,
    }
}

/// The sum of two values of one type, of a time and a duration, and what two texts or lists make together.
///
/// # Errors
/// When the sum is none, or is beyond what its type holds.
pub fn add(one: &Value, other: &Value) -> Result<Value, ExecutionError> {
    use Value as It;
    match (one, other) {
        (It::Int(one), It::Int(other)) => one.checked_add(*other).map(It::Int).ok_or_else(|| overflow("integer")),
        (It::UInt(one), It::UInt(other)) => one
            .checked_add(*other)
            .map(It::UInt)
            .ok_or_else(|| overflow("unsigned integer")),
        (It::Float(one), It::Float(other)) => Ok(It::Float(one + other)),
        (It::String(one), It::String(other)) => Ok(format!("{one}{other}").into()),
        (It::Bytes(one), It::Bytes(other)) => Ok(It::Bytes([one.as_slice(), other].concat().into())),
        (It::List(one), It::List(other)) => Ok(It::List([one.as_slice(), other].concat().into())),
        (It::Duration(one), It::Duration(other)) => one
            .checked_add(other)
            .filter(|it| it.num_nanoseconds().is_some())
            .map(It::Duration)
            .ok_or_else(|| overflow("integer")),
        (It::Timestamp(time), It::Duration(by)) | (It::Duration(by), It::Timestamp(time)) => time
            .checked_add_signed(*by)
            .filter(crate::times::is_in_range)
            .map(It::Timestamp)
            .ok_or_else(|| overflow("timestamp")),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn subtract(one: &Value, other: &Value) -> Result<Value, ExecutionError> {
    use Value as It;
    match (one, other) {
        (It::Int(one), It::Int(other)) => one.checked_sub(*other).map(It::Int).ok_or_else(|| overflow("integer")),
        (It::UInt(one), It::UInt(other)) => one
            .checked_sub(*other)
            .map(It::UInt)
            .ok_or_else(|| overflow("unsigned integer")),
        (It::Float(one), It::Float(other)) => Ok(It::Float(one - other)),
        (It::Duration(one), It::Duration(other)) => one
            .checked_sub(other)
            .filter(|it| it.num_nanoseconds().is_some())
            .map(It::Duration)
            .ok_or_else(|| overflow("integer")),
        (It::Timestamp(time), It::Duration(by)) => time
            .checked_sub_signed(*by)
            .filter(crate::times::is_in_range)
            .map(It::Timestamp)
            .ok_or_else(|| overflow("timestamp")),
        (It::Timestamp(one), It::Timestamp(other)) => {
            let between = one.signed_duration_since(other);
            let counted = between.num_nanoseconds().map(|_| It::Duration(between));
            counted.ok_or_else(|| overflow("integer"))
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// A result that its type cannot hold.
pub fn overflow(of: &str) -> ExecutionError {
    failed("", &format!("{of} overflow"))
}
