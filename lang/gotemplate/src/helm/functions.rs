//! The functions that Helm adds to sprig's.

use serde_json::Value as Json;

use crate::exec::{Call, execute};
use crate::functions::Functions;
use crate::gofmt::display;
use crate::json;
use crate::limits::INCLUDES_OF_ONE_NAME_MAX;
use crate::sprig::NO_TYPE;
use crate::value::{Elem, Numbers, Value};
use crate::yaml::{self, Dialect};

pub(crate) const WARNING_START: &str = "HELM_ERR_START";
pub(crate) const WARNING_END: &str = "HELM_ERR_END";

type Outcome = Result<Value, String>;

pub(crate) fn add(functions: &mut Functions) {
    functions.add("include", "string any", |call, args| {
        include(call, &display(&args[0]), &args[1])
    });
    functions.add("tpl", "string any", |call, args| {
        tpl(call, &display(&args[0]), &args[1])
    });
    functions.add("required", "string any", |_, args| match &args[1] {
        value if value.is_nil() || value.as_str() == Some("") => Err(warning(&args[0])),
        value => Ok(value.clone()),
    });
    functions.add("fail", "string", |_, args| Err(warning(&args[0])));
    functions.add("lookup", "string string string string", lookup);
    functions.add("getHostByName", "string", |_, _| Ok(Value::from("")));

    functions.add("toYaml", "any", |_, args| Ok(to_yaml(&args[0], Dialect::Sigs)));
    functions.add("toYamlPretty", "any", |_, args| Ok(to_yaml(&args[0], Dialect::Pretty)));
    functions.add("fromYaml", "string", |_, args| {
        Ok(object(yaml::read(&display(&args[0])), DECODING))
    });
    functions.add("fromYamlArray", "string", |_, args| {
        Ok(array(yaml::read(&display(&args[0])), DECODING))
    });
    functions.add("toJson", "any", |_, args| {
        let text = args[0].to_json().map(|it| json::write(&it, json::COMPACT));
        Ok(Value::from(text.unwrap_or_default()))
    });
    functions.add("fromJson", "string", |_, args| {
        Ok(object(crate::sprig::from_json(&display(&args[0])), ""))
    });
    functions.add("fromJsonArray", "string", |_, args| {
        Ok(array(crate::sprig::from_json(&display(&args[0])), ""))
    });
    functions.add("toToml", "any", |_, args| match &args[0] {
        nothing if nothing.is_nil() => Err(NO_TYPE.to_owned()),
        value => Ok(Value::from(super::toml::write(value))),
    });
    functions.add("fromToml", "string", |_, args| {
        Ok(match super::toml::read(&display(&args[0])) {
            Ok(value) => value,
            Err(message) => Value::map([("Error", Value::from(message))]),
        })
    });
}

fn warning(message: &Value) -> String {
    format!("{WARNING_START}{}{WARNING_END}", display(message))
}

fn include(call: &Call<'_>, name: &str, data: &Value) -> Outcome {
    let includes = &call.run.includes;
    {
        let mut counts = includes.borrow_mut();
        let count = counts.entry(name.to_owned()).or_insert(0);
        if *count > INCLUDES_OF_ONE_NAME_MAX {
            return Err(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            ));
        }
        *count += 1;
    }
    let outcome = call.execute(name, data_of(data));
    if let Some(count) = includes.borrow_mut().get_mut(name) {
        *count -= 1;
    }
    outcome.map(Value::from)
}

// A template that is executed with a nil has no data, and what has no data has no fields that could be missed.
fn data_of(value: &Value) -> Value {
    match value {
        Value::Nil => Value::Missing,
        value => value.clone(),
    }
}

fn tpl(call: &Call<'_>, text: &str, data: &Value) -> Outcome {
    // Helm calls every such text by the name of its root template.
    let name = "gotpl";
    let quoted = || crate::strconv::quote(text);
    let settings = &call.run.settings;
    let made = crate::parse::parse(&crate::parse::TemplateText {
        name,
        text,
        left: &settings.left,
        right: &settings.right,
        has_function: &|name| call.run.functions.contains(name),
    })
    .map_err(|message| format!("cannot parse template {}: {message}", quoted()))?;
    let tree = made.last().cloned();
    let mut trees = call.trees.clone();
    crate::parse::add(&mut trees, made);
    let Some(tree) = tree.filter(|it| &*it.name == name) else {
        return Ok(Value::from(""));
    };
    let inner = Call {
        run: call.run,
        trees: &trees,
    };
    let made = execute(inner, &tree, data_of(data))
        .map_err(|message| format!("error during tpl function execution for {}: {message}", quoted()))?;
    Ok(Value::from(made.replace("<no value>", "")))
}

fn lookup(call: &Call<'_>, args: &[Value]) -> Outcome {
    let Some(lookup) = &call.run.settings.lookup else {
        return Ok(Value::map::<&str>([]));
    };
    let words: Vec<String> = args.iter().map(display).collect();
    let found = lookup(&words[0], &words[1], &words[2], &words[3])?;
    Ok(Value::from_json(&found, Numbers::AsWritten))
}

fn to_yaml(value: &Value, dialect: Dialect) -> Value {
    let text = value.to_json().map(|it| yaml::write(&it, dialect)).unwrap_or_default();
    Value::from(text.strip_suffix('\n').unwrap_or(&text))
}

fn go_name(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

// How sigs.k8s.io/yaml begins what its JSON decoder says.
const DECODING: &str = "error unmarshaling JSON: while decoding JSON: ";

fn object(read: Result<Json, String>, prefix: &str) -> Value {
    let message = match read {
        Ok(Json::Null) => return Value::map::<&str>([]),
        Ok(json @ Json::Object(_)) => return Value::from_json(&json, Numbers::Float),
        Ok(other) => format!(
            "{prefix}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_name(&other)
        ),
        Err(message) => message,
    };
    Value::map([("Error", Value::from(message))])
}

fn array(read: Result<Json, String>, prefix: &str) -> Value {
    let message = match read {
        Ok(Json::Null) => return Value::list(Vec::new()),
        Ok(json @ Json::Array(_)) => return Value::from_json(&json, Numbers::Float),
        Ok(other) => format!(
            "{prefix}json: cannot unmarshal {} into Go value of type {}",
            go_name(&other),
            crate::gofmt::list_name(Elem::Any)
        ),
        Err(message) => message,
    };
    Value::list(vec![Value::from(message)])
}

/// The patterns of `.Files.Glob`: gobwas/glob with `/` as the separator.
pub(crate) struct Glob(Option<regex::Regex>);

impl Glob {
    pub fn parse(pattern: &str) -> Glob {
        let mut text = String::from("^(?s:");
        let mut chars = pattern.chars().peekable();
        let mut braces = 0;
        while let Some(it) = chars.next() {
            match it {
                '*' if chars.peek() == Some(&'*') => {
                    while chars.peek() == Some(&'*') {
                        chars.next();
                    }
                    text.push_str(".*");
                }
                '*' => text.push_str("[^/]*"),
                '?' => text.push_str("[^/]"),
                '{' => {
                    braces += 1;
                    text.push_str("(?:");
                }
                '}' if braces > 0 => {
                    braces -= 1;
                    text.push(')');
                }
                ',' if braces > 0 => text.push('|'),
                '[' => {
                    text.push('[');
                    if chars.peek() == Some(&'!') {
                        chars.next();
                        text.push('^');
                    }
                    for it in chars.by_ref() {
                        if it == ']' {
                            break;
                        }
                        if matches!(it, '[' | '\\' | '&' | '~' | '^') {
                            text.push('\\');
                        }
                        text.push(it);
                    }
                    text.push(']');
                }
                '\\' => {
                    if let Some(it) = chars.next() {
                        text.push_str(&regex::escape(&it.to_string()));
                    }
                }
                it => text.push_str(&regex::escape(&it.to_string())),
            }
        }
        text.push_str(")$");
        Glob(regex::Regex::new(&text).ok())
    }

    /// A pattern that is none matches everything, as in Helm.
    pub fn matches(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|it| it.is_match(name))
    }
}
