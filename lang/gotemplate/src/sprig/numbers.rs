//! Arithmetic, and sprig's ways from anything to a number.

use crate::functions::Functions;
use crate::gofmt::display;
use crate::sprig::strings::int;
use crate::value::Value;

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("atoi", "string", |_, a| Ok(Value::int(atoi(&display(&a[0])))));
    functions.add("int64", "any", |_, a| Ok(Value::int64(to_int64(&a[0]))));
    functions.add("int", "any", |_, a| Ok(Value::int(to_int64(&a[0]))));
    functions.add("float64", "any", |_, a| Ok(Value::Float(to_float64(&a[0]))));
    functions.add("toDecimal", "any", |_, a| {
        Ok(Value::int64(i64::from_str_radix(&display(&a[0]), 8).unwrap_or(0)))
    });
    functions.add("add1", "any", |_, a| Ok(Value::int64(to_int64(&a[0]).wrapping_add(1))));
    functions.add("add", "...any", |_, a| {
        Ok(Value::int64(
            a.iter().fold(0i64, |sum, it| sum.wrapping_add(to_int64(it))),
        ))
    });
    functions.add("sub", "any any", |_, a| {
        Ok(Value::int64(to_int64(&a[0]).wrapping_sub(to_int64(&a[1]))))
    });
    functions.add("mul", "any ...any", |_, a| {
        Ok(Value::int64(
            a.iter().fold(1i64, |product, it| product.wrapping_mul(to_int64(it))),
        ))
    });
    functions.add("div", "any any", |_, a| divide(a, i64::wrapping_div));
    functions.add("mod", "any any", |_, a| divide(a, i64::wrapping_rem));
    functions.add("max", "any ...any", |_, a| {
        Ok(Value::int64(a.iter().map(to_int64).max().unwrap_or(0)))
    });
    functions.alias("biggest", "max");
    functions.add("min", "any ...any", |_, a| {
        Ok(Value::int64(a.iter().map(to_int64).min().unwrap_or(0)))
    });
    functions.add("maxf", "any ...any", |_, a| Ok(Value::Float(extreme(a, f64::max))));
    functions.add("minf", "any ...any", |_, a| Ok(Value::Float(extreme(a, f64::min))));
    functions.add("floor", "any", |_, a| Ok(Value::Float(to_float64(&a[0]).floor())));
    functions.add("ceil", "any", |_, a| Ok(Value::Float(to_float64(&a[0]).ceil())));
    functions.add("round", "any int ...float", |_, a| Ok(Value::Float(round(a))));
    functions.add("add1f", "any", |_, a| {
        Ok(Value::Float(super::decimal::fold(
            to_float64(&a[0]),
            &[1.0],
            super::decimal::Operation::Add,
        )?))
    });
    functions.add("addf", "...any", |_, a| decimal(0.0, a, super::decimal::Operation::Add));
    for (name, operation) in [
        ("subf", super::decimal::Operation::Sub),
        ("mulf", super::decimal::Operation::Mul),
        ("divf", super::decimal::Operation::Div),
    ] {
        functions.add(name, "any ...any", move |_, a| {
            decimal(to_float64(&a[0]), &a[1..], operation)
        });
    }
}

fn decimal(first: f64, others: &[Value], operation: super::decimal::Operation) -> Outcome {
    let others: Vec<f64> = others.iter().map(to_float64).collect();
    Ok(Value::Float(super::decimal::fold(first, &others, operation)?))
}

fn divide(a: &[Value], by: impl Fn(i64, i64) -> i64) -> Outcome {
    let (a, b) = (to_int64(&a[0]), to_int64(&a[1]));
    if b == 0 {
        return Err("runtime error: integer divide by zero".to_owned());
    }
    Ok(Value::int64(by(a, b)))
}

// Go's math.Max and math.Min answer NaN when either is.
fn extreme(a: &[Value], of: impl Fn(f64, f64) -> f64) -> f64 {
    let mut numbers = a.iter().map(to_float64);
    let first = numbers.next().unwrap_or(0.0);
    numbers.fold(first, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { of(a, b) })
}

fn round(a: &[Value]) -> f64 {
    let round_on = match a.get(2) {
        Some(Value::Float(it)) => *it,
        _ => 0.5,
    };
    let power = 10f64.powi(i32::try_from(int(&a[1])).unwrap_or(i32::MAX));
    let digits = power * to_float64(&a[0]);
    let rounded = if digits.fract() >= round_on {
        digits.ceil()
    } else {
        digits.floor()
    };
    rounded / power
}

/// Go's `strconv.Atoi` without its error: zero for what is no number, and the nearest number for what is too large.
fn atoi(text: &str) -> i64 {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return 0;
    }
    let nearest = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    text.parse().unwrap_or(nearest)
}

/// spf13/cast's ToInt64: zero for what is no number.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(value, _) => *value,
        Value::Float(value) => float_to_int(*value),
        Value::Bool(value) => i64::from(*value),
        Value::Str(text) => crate::strconv::parse_int(without_zero_decimals(text)).unwrap_or(0),
        _ => 0,
    }
}

/// spf13/cast's ToInt64 since its version 1.8: the decimals of a text are cut off.
pub(crate) fn to_int64_of_any_decimals(value: &Value) -> i64 {
    let Value::Str(text) = value else {
        return to_int64(value);
    };
    let digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, decimals)) if digits(whole.strip_prefix(['-', '+']).unwrap_or(whole)) && digits(decimals) => {
            crate::strconv::parse_int(whole).unwrap_or(0)
        }
        _ => to_int64(value),
    }
}

// What the processor makes of a float that is too large: the smallest number.
fn float_to_int(value: f64) -> i64 {
    if value.is_nan() || !(-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value) {
        return i64::MIN;
    }
    value as i64
}

/// `1.0` is taken for `1`; `1.5` stays, and is no whole number.
fn without_zero_decimals(text: &str) -> &str {
    match text.rfind('.') {
        Some(at) if !text[at + 1..].is_empty() && text[at + 1..].bytes().all(|it| it == b'0') => {
            if at > 0 {
                &text[..at]
            } else {
                text
            }
        }
        _ => text,
    }
}

/// spf13/cast's ToFloat64.
pub(super) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Int(value, _) => *value as f64,
        Value::Float(value) => *value,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Str(text) => parse_decimal(text).unwrap_or(0.0),
        _ => 0.0,
    }
}

fn parse_decimal(text: &str) -> Option<f64> {
    if text.contains('_') {
        return None;
    }
    crate::strconv::parse_float(text)
}
