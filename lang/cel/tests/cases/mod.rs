//! Cases of tests/conformance/cel: what is asked, what was answered, and what is answered here.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use safe_cel::{
    Budget, Library, Value, from_json,
    language::objects::{Key, OptionalValue},
};
use serde_json::{Value as Json, json};

/// An expression with Kubernetes' answer.
#[derive(Debug, Clone)]
pub struct Case {
    pub expression: String,
    pub object: Json,
    /// The value as the oracle writes it; `None` if there is none.
    pub value: Option<String>,
    /// Why there is none.
    pub error: String,
    /// Whether it was refused when it was read.
    pub refused: bool,
}

impl Case {
    /// A line of the oracle.
    pub fn read(line: &str) -> Self {
        let it: Json = serde_json::from_str(line).expect("the oracle writes JSON");
        let text = |name: &str| it.get(name).and_then(Json::as_str).map(str::to_owned);
        Self {
            expression: text("expression").expect("every case has an expression"),
            object: it.get("object").cloned().unwrap_or_default(),
            value: text("value"),
            error: text("error").unwrap_or_default(),
            refused: it.get("refused").is_some_and(|it| it == true),
        }
    }

    /// A case that nobody answered yet.
    pub fn asked(expression: &str, object: &Json) -> Self {
        Self {
            expression: expression.to_owned(),
            object: object.clone(),
            value: None,
            error: String::new(),
            refused: false,
        }
    }

    fn question(&self) -> Json {
        json!({"expression": self.expression, "object": self.object})
    }

    /// The corpus with its answers.
    pub fn recorded() -> Vec<Self> {
        include_str!("../fixtures/answers.jsonl")
            .lines()
            .map(Self::read)
            .collect()
    }
}

/// What is answered here, in the oracle's way.
fn answer(case: &Case) -> Result<String, String> {
    let library = Library::kubernetes();
    let expression = library
        .compile(&case.expression, &["object", "oldObject"])
        .map_err(|it| it.to_string())?;
    let mut context = library.scope();
    context.add_variable_from_value("object", from_json(&case.object));
    context.add_variable_from_value("oldObject", from_json(&Json::Null));
    expression
        .evaluate(&context, &mut Budget::of_object())
        .map(|it| show(&it))
        .map_err(|it| it.to_string())
}

/// What Kubernetes' checker of types says, in parts: there is none here, so what it refuses may have a value.
const OF_TYPES: [&str; 9] = [
    "found no matching overload",
    "undeclared reference",
    "expected type",
    "does not support field selection",
    "unsupported type conversion",
    "duplicate variable name",
    "cannot be range of a comprehension",
    "unexpected failed resolution",
    "sortBy can only be applied to",
];

/// What is known to differ where nobody is served by it: whether it does in this case, and why that stays.
fn is_known(case: &Case, ours: &Result<String, String>) -> bool {
    let failed = |part: &str| ours.as_ref().is_err_and(|it| it.contains(part));
    let fails = |part: &str| case.value.is_none() && case.error.contains(part);
    // JSON has no such keys: maps here have those of the CEL specification.
    failed("unsupported key type")
        // There is no field in a list, which is told and is no error.
        || fails("unsupported index type 'string' in list")
        || fails("invalid qualifier type")
        // What is never asked is not computed before.
        || (fails("type conversion error") || fails(" argument")) && case.expression.contains("[].")
        // An index of a list or map is no fraction, be it whole.
        || ["[0e0]", "[-0e0]", "[0.0]", "[1.0]", "[?0.0]", "[?1.5]"].iter().any(|it| case.expression.contains(it))
        // That an optional value is there is seen in the expression alone.
        || failed("no such overload") && case.expression.contains("dyn(optional")
        // Signs and the least number, and signs and negations, are no expressions there.
        || case.refused && ["!-", "-!", "--9223372036854775808"].iter().any(|it| case.expression.contains(it))
        || KNOWN.contains(&case.expression.as_str())
}

/// Single cases of that kind.
const KNOWN: [&str; 6] = [
    // The binary exponents of Go's hexadecimal fractions.
    "double('0x1p-2')",
    // A range that ends before it begins.
    "'--'.matches('^[a--b]+$')",
    // Said by a checker there; what is too much is not looked at when it runs.
    "'%s'.format(['a', 'b'])",
    "google.protobuf.Int32Value{value: 1}",
    // No error: it is another.
    "quantity('1') == dyn(1)",
    // Upstream's answer comes of an overflow.
    "quantity('0').sub(-9223372036854775808).isInteger()",
];

/// What differs between Kubernetes' answer and ours.
fn difference(case: &Case, ours: &Result<String, String>) -> Option<String> {
    let asked = &case.expression;
    match (&case.value, ours) {
        _ if is_known(case, ours) => None,
        _ if case.refused && OF_TYPES.iter().any(|it| case.error.contains(it)) => None,
        (Some(theirs), Ok(ours)) if theirs == ours => None,
        (None, Err(_)) => None,
        (Some(theirs), _) => Some(format!("{asked}\n    is {theirs}, not {ours:?}")),
        (None, Ok(ours)) => Some(format!("{asked}\n    fails ({}), and is not {ours}", case.error)),
    }
}

/// Says which cases differ, when some do.
pub fn agree(cases: &[Case]) {
    let wrong: Vec<String> = cases.iter().filter_map(|it| difference(it, &answer(it))).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// The cases with Kubernetes' answers, or nothing when there is nobody to ask.
pub fn ask(cases: &[Case]) -> Option<Vec<Case>> {
    let program = std::env::var_os("CEL_ORACLE")?;
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("CEL_ORACLE names the program built of tests/conformance/cel");
    let mut input = child.stdin.take().expect("its input is a pipe");
    let lines: String = cases.iter().map(|it| format!("{}\n", it.question())).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer
        .join()
        .expect("the writer does not panic")
        .expect("it reads to the end");
    assert!(output.status.success(), "the oracle failed");
    let lines = String::from_utf8(output.stdout).expect("it writes UTF-8");
    Some(lines.lines().map(Case::read).collect())
}

fn show(value: &Value) -> String {
    let joined = |mut items: Vec<String>, sorted: bool| {
        if sorted {
            items.sort();
        }
        items.join(",")
    };
    match value {
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::UInt(it) => format!("{it}u"),
        Value::Float(it) if it.is_nan() => "NaN".to_owned(),
        Value::Float(it) => format!("double {:016x}", it.to_bits()),
        Value::String(it) => Json::from(it.as_str()).to_string(),
        Value::Bytes(it) => it.iter().fold("b".to_owned(), |made, it| format!("{made}{it:02x}")),
        Value::Null => "null".to_owned(),
        Value::Duration(it) => format!("duration {}.{:09}", it.num_seconds(), it.subsec_nanos()),
        Value::Timestamp(it) => format!("timestamp {}.{:09}", it.timestamp(), it.timestamp_subsec_nanos()),
        Value::List(items) => format!("[{}]", joined(items.iter().map(show).collect(), false)),
        Value::Map(it) => {
            let entries = it
                .map
                .iter()
                .map(|(key, value)| format!("{}:{}", show_key(key), show(value)));
            format!("{{{}}}", joined(entries.collect(), true))
        }
        Value::Opaque(it) => match it.downcast_ref::<OptionalValue>() {
            Some(it) => it
                .value()
                .map_or_else(|| "optional.none".to_owned(), |it| format!("optional({})", show(it))),
            None if it.runtime_type_name() == "type" => "type".to_owned(),
            None => "another".to_owned(),
        },
        _ => "another".to_owned(),
    }
}

fn show_key(key: &Key) -> String {
    match key {
        Key::Bool(it) => it.to_string(),
        Key::Int(it) => it.to_string(),
        Key::Uint(it) => format!("{it}u"),
        Key::String(it) => Json::from(it.as_str()).to_string(),
    }
}
