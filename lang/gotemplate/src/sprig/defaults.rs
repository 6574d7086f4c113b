//! Defaults, emptiness, JSON and what type a value is.

use crate::functions::Functions;
use crate::gofmt::{display, sprintf};
use crate::json::{COMPACT, Style, write};
use crate::value::{Numbers, Value};

pub(crate) fn add(functions: &mut Functions) {
    functions.add("default", "any ...any", |_, a| match a.get(1) {
        Some(given) if given.is_true() => Ok(given.clone()),
        _ => Ok(a[0].clone()),
    });
    functions.add("empty", "any", |_, a| Ok(Value::Bool(!a[0].is_true())));
    functions.add("coalesce", "...any", |_, a| {
        Ok(a.iter().find(|it| it.is_true()).cloned().unwrap_or(Value::Nil))
    });
    functions.add("all", "...any", |_, a| Ok(Value::Bool(a.iter().all(Value::is_true))));
    functions.add("any", "...any", |_, a| Ok(Value::Bool(a.iter().any(Value::is_true))));
    functions.add("ternary", "any any bool", |_, a| {
        Ok(if a[2].is_true() { a[0].clone() } else { a[1].clone() })
    });
    functions.add("fail", "string", |_, a| Err(display(&a[0])));

    functions.add("fromJson", "string", |_, a| {
        Ok(Value::from_json(
            &super::from_json(&display(&a[0])).unwrap_or_default(),
            Numbers::Float,
        ))
    });
    functions.add("mustFromJson", "string", |_, a| {
        Ok(Value::from_json(&super::from_json(&display(&a[0]))?, Numbers::Float))
    });
    let pretty = Style {
        escape_html: true,
        indent: Some("  "),
    };
    let raw = Style {
        escape_html: false,
        indent: None,
    };
    for (name, must, style) in [
        ("toJson", "mustToJson", COMPACT),
        ("toPrettyJson", "mustToPrettyJson", pretty),
    ] {
        functions.add(name, "any", move |_, a| {
            Ok(Value::from(
                a[0].to_json().map(|it| write(&it, style)).unwrap_or_default(),
            ))
        });
        functions.add(must, "any", move |_, a| Ok(Value::from(write(&a[0].to_json()?, style))));
    }
    functions.add("toRawJson", "any", move |_, a| {
        Ok(Value::from(write(&a[0].to_json()?, raw)))
    });
    functions.alias("mustToRawJson", "toRawJson");

    functions.add("typeOf", "any", |_, a| Ok(Value::from(type_of(&a[0]))));
    functions.add("typeIs", "string any", |_, a| {
        Ok(Value::Bool(type_of(&a[1]) == display(&a[0])))
    });
    functions.add("typeIsLike", "string any", |_, a| {
        let (wanted, found) = (display(&a[0]), type_of(&a[1]));
        Ok(Value::Bool(wanted == found || format!("*{wanted}") == found))
    });
    functions.add("kindOf", "any", |_, a| Ok(Value::from(a[0].kind())));
    functions.add("kindIs", "string any", |_, a| {
        Ok(Value::Bool(a[1].kind() == display(&a[0])))
    });
    functions.add("deepEqual", "any any", |_, a| Ok(Value::Bool(a[0].deep_equal(&a[1]))));
}

fn type_of(value: &Value) -> String {
    sprintf("%T", std::slice::from_ref(value))
}
