//! Quantities of resources (`1Gi`), exactly.
//! Upstream: Kubernetes' `cel/library/quantity.go`; apimachinery `resource.Quantity`.

use std::{cmp::Ordering, sync::Arc};

use kube_cel::cel::{
    Context, ExecutionError, Value,
    extractors::{Arguments, This},
    objects::Opaque,
};
use kube_primitives::quantity::Quantity;

use super::versions;
use crate::charge::failed;

#[derive(Debug, PartialEq, Eq)]
struct Held(Quantity);

impl Opaque for Held {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }
}

fn held(value: &Value) -> Option<&Quantity> {
    match value {
        Value::Opaque(it) => it.downcast_ref::<Held>().map(|it| &it.0),
        _ => None,
    }
}

fn this(value: &Value) -> Result<&Quantity, ExecutionError> {
    held(value).ok_or(ExecutionError::NoSuchOverload)
}

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    root.add_function("quantity", |text: Arc<String>| {
        let read = text.parse().map_err(|why: String| failed("", &why))?;
        Ok::<_, ExecutionError>(Value::Opaque(Arc::new(Held(read))))
    });
    root.add_function("isQuantity", |text: Arc<String>| text.parse::<Quantity>().is_ok());
    root.add_function("isInteger", |This(it): This<Value>| {
        Ok::<_, ExecutionError>(Value::Bool(this(&it)?.as_integer().is_some()))
    });
    root.add_function("asInteger", |This(it): This<Value>| {
        let integer = this(&it)?.as_integer();
        integer
            .map(Value::Int)
            .ok_or_else(|| failed("", "cannot convert value to integer"))
    });
    root.add_function("asApproximateFloat", |This(it): This<Value>| {
        Ok::<_, ExecutionError>(Value::Float(this(&it)?.approximate()))
    });
    root.add_function("sign", |This(it): This<Value>| {
        let sign = match this(&it)?.cmp(&Quantity::from(0)) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        };
        Ok::<_, ExecutionError>(Value::Int(sign))
    });
    root.add_function("add", |This(it): This<Value>, Arguments(args): Arguments| {
        combined(&it, &args, |one, other| one + other)
    });
    root.add_function("sub", |This(it): This<Value>, Arguments(args): Arguments| {
        combined(&it, &args, |one, other| one - other)
    });
    root.add_function("isLessThan", |This(it): This<Value>, other: Value| {
        Ok::<_, ExecutionError>(Value::Bool(compare(&it, &other)? == Ordering::Less))
    });
    root.add_function("isGreaterThan", |This(it): This<Value>, other: Value| {
        Ok::<_, ExecutionError>(Value::Bool(compare(&it, &other)? == Ordering::Greater))
    });
    root.add_function("compareTo", |This(it): This<Value>, other: Value| {
        Ok::<_, ExecutionError>(Value::Int(compare(&it, &other)? as i64))
    });
}

fn combined(it: &Value, args: &[Value], by: fn(&Quantity, &Quantity) -> Quantity) -> Result<Value, ExecutionError> {
    let made = match args {
        [Value::Int(other)] => by(this(it)?, &Quantity::from(*other)),
        [other] => by(this(it)?, this(other)?),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::Opaque(Arc::new(Held(made))))
}

/// Which of two quantities, or of two versions, comes first.
fn compare(one: &Value, other: &Value) -> Result<Ordering, ExecutionError> {
    if let (Some(one), Some(other)) = (held(one), held(other)) {
        return Ok(one.cmp(other));
    }
    versions::compare(one, other).ok_or(ExecutionError::NoSuchOverload)
}
