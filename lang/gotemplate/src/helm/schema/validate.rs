//! Holds a value against a schema.

use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value as Json};

use super::failure::{SchemaFailure, What, count, number, quoted, quoted_all};
use super::read::{ReferenceTarget, Schema};
use super::{below, formats, numbers};
use crate::helm::values::Values;
use crate::limits::with_stack;

/// How many values one check may hold against schemas: alternatives inside alternatives multiply.
const STEPS_MAX: u32 = 200_000;
const DEPTH_MAX: usize = 1_000;

type Check = Result<(), SchemaFailure>;

/// The schemas that one value is being held against, to find those that refer to themselves.
#[derive(Clone, Copy)]
struct Held<'a> {
    schema: *const Json,
    above: Option<&'a Held<'a>>,
}

impl Schema {
    /// The values that this schema does not allow, in Helm's lines.
    pub fn check(&self, values: &Values) -> Result<(), String> {
        let run = Run {
            schema: self,
            steps: Cell::new(0),
        };
        let values = Json::Object(values.clone());
        run.value(&self.root, &values, "", None, 0).map_err(SchemaFailure::text)
    }
}

struct Run<'s> {
    schema: &'s Schema,
    steps: Cell<u32>,
}

/// Where one schema meets one value.
struct Meeting<'a> {
    fields: &'a Map<String, Json>,
    at: &'a str,
    held: &'a Held<'a>,
    depth: usize,
    failures: Vec<SchemaFailure>,
}

impl Meeting<'_> {
    fn says(&mut self, text: String) {
        self.failures.push(SchemaFailure::said(self.at, text));
    }

    fn because(&mut self, text: String, causes: Vec<SchemaFailure>) {
        self.failures.push(SchemaFailure {
            at: self.at.to_owned(),
            what: What::Said(text),
            causes,
        });
    }

    fn take(&mut self, check: Check) {
        self.failures.extend(check.err());
    }

    fn count(&self, keyword: &str) -> Option<usize> {
        self.fields.get(keyword).and_then(Json::as_f64).map(|it| it as usize)
    }

    fn schemas(&self, keyword: &str) -> Option<&[Json]> {
        self.fields.get(keyword).and_then(Json::as_array).map(Vec::as_slice)
    }

    fn finished(mut self) -> Check {
        match self.failures.len() {
            0 => Ok(()),
            1 => Err(self.failures.remove(0)),
            _ => Err(SchemaFailure {
                at: self.at.to_owned(),
                what: What::Group,
                causes: self.failures,
            }),
        }
    }
}

impl Run<'_> {
    fn value(&self, schema: &Json, value: &Json, at: &str, above: Option<&Held<'_>>, depth: usize) -> Check {
        let says = |text: &str| Err(SchemaFailure::said(at, text.to_owned()));
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX || depth > DEPTH_MAX {
            return says("the schema takes too long to be checked");
        }
        let fields = match schema {
            Json::Object(fields) => fields,
            Json::Bool(false) => return says("false schema"),
            _ => return Ok(()),
        };
        let mut held = above;
        while let Some(it) = held {
            if std::ptr::eq(it.schema, schema) {
                return says("the schema refers to itself without end");
            }
            held = it.above;
        }
        let held = Held { schema, above };
        let mut meeting = Meeting {
            fields,
            at,
            held: &held,
            depth: depth + 1,
            failures: Vec::new(),
        };
        let recent = self.schema.draft >= 2019;
        if let Some(reference) = fields.get("$ref").and_then(Json::as_str) {
            // Before draft 2019 nothing counts beside a reference; the library still looks at `const` from draft 6 on.
            if !recent {
                if let Some(refused) = refused_const(self.schema.draft, fields, value) {
                    return says(&refused);
                }
                return self.reference(reference, value, &meeting);
            }
            if let Some(refused) = refused_at_once(self.schema.draft, fields, value) {
                return says(&refused);
            }
            let check = self.reference(reference, value, &meeting);
            meeting.take(check);
        } else if let Some(refused) = refused_at_once(self.schema.draft, fields, value) {
            return says(&refused);
        }
        match value {
            Json::Object(value) => self.object(&mut meeting, value),
            Json::Array(value) => self.array(&mut meeting, value),
            Json::String(value) => self.text(&mut meeting, value),
            Json::Number(value) => self.number(&mut meeting, value),
            Json::Null | Json::Bool(_) => {}
        }
        self.combined(&mut meeting, value);
        meeting.finished()
    }

    /// Holds the same value against another schema.
    fn same(&self, schema: &Json, value: &Json, from: &Meeting<'_>) -> Check {
        with_stack(|| self.value(schema, value, from.at, Some(from.held), from.depth))
    }

    /// Holds a value inside this one against a schema.
    fn inner(&self, schema: &Json, value: &Json, name: &str, from: &Meeting<'_>) -> Check {
        with_stack(|| self.value(schema, value, &below(from.at, name), None, from.depth))
    }

    fn reference(&self, reference: &str, value: &Json, from: &Meeting<'_>) -> Check {
        let Some(ReferenceTarget::Schema(schema)) = self.schema.target(reference) else {
            return Ok(());
        };
        self.same(schema, value, from).map_err(|failure| SchemaFailure {
            at: from.at.to_owned(),
            what: What::Reference,
            causes: match failure.what {
                What::Group => failure.causes,
                _ => vec![failure],
            },
        })
    }

    fn object(&self, meeting: &mut Meeting<'_>, value: &Map<String, Json>) {
        let (fields, draft) = (meeting.fields, self.schema.draft);
        let length = value.len();
        if let Some(wanted) = meeting.count("minProperties").filter(|it| length < *it) {
            meeting.says(format!("minProperties: got {}, want {}", count(length), count(wanted)));
        }
        if let Some(wanted) = meeting.count("maxProperties").filter(|it| length > *it) {
            meeting.says(format!("maxProperties: got {}, want {}", count(length), count(wanted)));
        }
        let missing = missing(value, fields.get("required"));
        match missing.as_slice() {
            [] => {}
            [one] => meeting.says(format!("missing property {}", quoted(one))),
            more => meeting.says(format!("missing properties {}", quoted_all(more.iter().copied()))),
        }
        for (name, entry) in entries(fields, "dependencies").filter(|(it, _)| value.contains_key(*it)) {
            match entry {
                Json::Array(_) => self.needed(meeting, value, name, entry),
                schema => self.whole(meeting, schema, value),
            }
        }
        let properties = fields.get("properties").and_then(Json::as_object);
        let mut additional = Vec::new();
        for (name, inside) in value {
            let mut known = false;
            if let Some(schema) = properties.and_then(|it| it.get(name)) {
                known = true;
                meeting.take(self.inner(schema, inside, name, meeting));
            }
            for (pattern, schema) in entries(fields, "patternProperties") {
                if self.schema.patterns.get(pattern).is_some_and(|it| it.is_match(name)) {
                    known = true;
                    meeting.take(self.inner(schema, inside, name, meeting));
                }
            }
            match fields.get("additionalProperties") {
                Some(Json::Bool(false)) if !known => additional.push(name.as_str()),
                Some(schema) if !known => meeting.take(self.inner(schema, inside, name, meeting)),
                _ => {}
            }
        }
        if !additional.is_empty() {
            meeting.says(format!("additional properties {} not allowed", quoted_all(additional)));
        }
        if draft == 4 {
            return;
        }
        if let Some(schema) = fields.get("propertyNames") {
            for name in value.keys() {
                let check = self.value(schema, &Json::from(name.as_str()), "", None, meeting.depth);
                if let Err(failure) = check {
                    let causes = match failure.what {
                        What::Group => failure.causes,
                        _ => vec![failure],
                    };
                    // The library counts a name's place from the name itself.
                    meeting.failures.push(SchemaFailure {
                        at: String::new(),
                        what: What::Said(format!("invalid propertyName {}", quoted(name))),
                        causes,
                    });
                }
            }
        }
        if draft < 2019 {
            return;
        }
        for (_, schema) in entries(fields, "dependentSchemas").filter(|(it, _)| value.contains_key(*it)) {
            self.whole(meeting, schema, value);
        }
        for (name, wanted) in entries(fields, "dependentRequired").filter(|(it, _)| value.contains_key(*it)) {
            self.needed(meeting, value, name, wanted);
        }
    }

    fn whole(&self, meeting: &mut Meeting<'_>, schema: &Json, value: &Map<String, Json>) {
        let check = self.same(schema, &Json::Object(value.clone()), meeting);
        meeting.take(check);
    }

    fn needed(&self, meeting: &mut Meeting<'_>, value: &Map<String, Json>, name: &str, wanted: &Json) {
        let missing = missing(value, Some(wanted));
        if !missing.is_empty() {
            let missing = quoted_all(missing);
            meeting.says(format!("properties {missing} required, if {} exists", quoted(name)));
        }
    }

    fn array(&self, meeting: &mut Meeting<'_>, value: &[Json]) {
        let fields = meeting.fields;
        let length = value.len();
        if let Some(wanted) = meeting.count("minItems").filter(|it| length < *it) {
            meeting.says(format!("minItems: got {}, want {}", count(length), count(wanted)));
        }
        if let Some(wanted) = meeting.count("maxItems").filter(|it| length > *it) {
            meeting.says(format!("maxItems: got {}, want {}", count(length), count(wanted)));
        }
        if fields.get("uniqueItems") == Some(&Json::Bool(true))
            && let Some((first, second)) = self.duplicates(value)
        {
            meeting.says(format!("items at {} and {} are equal", count(first), count(second)));
        }
        let (firsts, rest) = match fields.get("items") {
            Some(Json::Array(firsts)) if self.schema.draft < 2020 => (firsts.as_slice(), fields.get("additionalItems")),
            rest if self.schema.draft < 2020 => (&[][..], rest),
            rest => (meeting.schemas("prefixItems").unwrap_or_default(), rest),
        };
        let firsts = firsts.to_vec();
        for (number, (item, schema)) in value.iter().zip(&firsts).enumerate() {
            meeting.take(self.inner(schema, item, &number.to_string(), meeting));
        }
        let over = length.saturating_sub(firsts.len());
        match rest {
            Some(Json::Bool(false)) if !firsts.is_empty() && self.schema.draft < 2020 => {
                if over > 0 {
                    meeting.says(format!("last {} additionalItem(s) not allowed", count(over)));
                }
            }
            Some(schema) => {
                for (number, item) in value.iter().enumerate().skip(firsts.len()) {
                    meeting.take(self.inner(schema, item, &number.to_string(), meeting));
                }
            }
            None => {}
        }
        if let Some(schema) = fields.get("contains").filter(|_| self.schema.draft > 4) {
            self.contains(meeting, schema, value);
        }
    }

    fn contains(&self, meeting: &mut Meeting<'_>, schema: &Json, value: &[Json]) {
        let mut failures = Vec::new();
        let mut matched = Vec::new();
        for (number, item) in value.iter().enumerate() {
            match self.inner(schema, item, &number.to_string(), meeting) {
                Ok(()) => matched.push(number.to_string()),
                Err(failure) => failures.push(failure),
            }
        }
        let recent = self.schema.draft >= 2019;
        let found = matched.len();
        match meeting.count("minContains").filter(|_| recent) {
            Some(wanted) if found < wanted => {
                let got = match found {
                    0 => "none matched".to_owned(),
                    _ => format!("matched {} items at {}", count(found), matched.join(" ")),
                };
                let wanted = count(wanted);
                meeting.because(
                    format!("min {wanted} items required to match contains schema, but {got}"),
                    failures,
                );
            }
            None if found == 0 => meeting.because("no items match contains schema".to_owned(), failures),
            _ => {}
        }
        if let Some(wanted) = meeting.count("maxContains").filter(|it| recent && found > *it) {
            meeting.says(format!(
                "max {} items required to match contains schema, but matched {} items at {}",
                count(wanted),
                count(found),
                matched.join(" ")
            ));
        }
    }

    fn duplicates(&self, value: &[Json]) -> Option<(usize, usize)> {
        for (second, item) in value.iter().enumerate() {
            for (first, other) in value[..second].iter().enumerate() {
                self.steps.set(self.steps.get().saturating_add(1));
                if self.steps.get() > STEPS_MAX {
                    return None;
                }
                if equal(item, other) {
                    return Some((first, second));
                }
            }
        }
        None
    }

    fn text(&self, meeting: &mut Meeting<'_>, value: &str) {
        let length = value.chars().count();
        if let Some(wanted) = meeting.count("minLength").filter(|it| length < *it) {
            meeting.says(format!("minLength: got {}, want {}", count(length), count(wanted)));
        }
        if let Some(wanted) = meeting.count("maxLength").filter(|it| length > *it) {
            meeting.says(format!("maxLength: got {}, want {}", count(length), count(wanted)));
        }
        let pattern = meeting.fields.get("pattern").and_then(Json::as_str);
        let pattern = pattern.and_then(|it| self.schema.patterns.get_key_value(it));
        if let Some((pattern, compiled)) = pattern
            && !compiled.is_match(value)
        {
            meeting.says(format!("{} does not match pattern {}", quoted(value), quoted(pattern)));
        }
    }

    fn number(&self, meeting: &mut Meeting<'_>, value: &Number) {
        let fields = meeting.fields;
        // In draft 4 the bound says beside itself whether it belongs to what is allowed.
        let exclusive = |keyword: &str| self.schema.draft == 4 && fields.get(keyword) == Some(&Json::Bool(true));
        let low = if exclusive("exclusiveMinimum") {
            "exclusiveMinimum"
        } else {
            "minimum"
        };
        let high = if exclusive("exclusiveMaximum") {
            "exclusiveMaximum"
        } else {
            "maximum"
        };
        let bounds: [(&str, &str, &[Ordering]); 4] = [
            ("minimum", low, &[Ordering::Less]),
            ("maximum", high, &[Ordering::Greater]),
            (
                "exclusiveMinimum",
                "exclusiveMinimum",
                &[Ordering::Less, Ordering::Equal],
            ),
            (
                "exclusiveMaximum",
                "exclusiveMaximum",
                &[Ordering::Greater, Ordering::Equal],
            ),
        ];
        for (keyword, name, wrong) in bounds {
            let Some(Json::Number(bound)) = fields.get(keyword) else {
                continue;
            };
            let order = numbers::compare(value, bound);
            if wrong.contains(&order) || name != keyword && order == Ordering::Equal {
                let (got, want) = (number(numbers::float(value)), number(numbers::float(bound)));
                meeting.says(format!("{name}: got {got}, want {want}"));
            }
        }
        if let Some(Json::Number(of)) = fields.get("multipleOf")
            && !numbers::is_multiple(value, of)
        {
            let (got, want) = (number(numbers::float(value)), number(numbers::float(of)));
            meeting.says(format!("multipleOf: got {got}, want {want}"));
        }
    }

    fn combined(&self, meeting: &mut Meeting<'_>, value: &Json) {
        let fields = meeting.fields;
        if let Some(schema) = fields.get("not")
            && self.same(schema, value, meeting).is_ok()
        {
            meeting.says("'not' failed".to_owned());
        }
        let list = |keyword: &str| fields.get(keyword).and_then(Json::as_array);
        if let Some(schemas) = list("allOf") {
            let checks = schemas.iter().map(|it| self.same(it, value, meeting));
            let failures: Vec<SchemaFailure> = checks.filter_map(Result::err).collect();
            if !failures.is_empty() {
                meeting.because("'allOf' failed".to_owned(), failures);
            }
        }
        if let Some(schemas) = list("anyOf") {
            let checks: Result<Vec<SchemaFailure>, ()> = schemas
                .iter()
                .map(|it| self.same(it, value, meeting).err().ok_or(()))
                .collect();
            // The first that allows it ends the search.
            if let Ok(failures) = checks {
                meeting.because("'anyOf' failed".to_owned(), failures);
            }
        }
        if let Some(schemas) = list("oneOf") {
            let mut matched = Vec::new();
            let mut failures = Vec::new();
            for (number, schema) in schemas.iter().enumerate() {
                match self.same(schema, value, meeting) {
                    Ok(()) => matched.push(number),
                    Err(failure) => failures.push(failure),
                }
            }
            match matched.as_slice() {
                [] => meeting.because("'oneOf' failed, none matched".to_owned(), failures),
                [_] => {}
                [first, second, ..] => {
                    meeting.says(format!("'oneOf' failed, subschemas {first}, {second} matched"));
                }
            }
        }
        if let Some(schema) = fields.get("if").filter(|_| self.schema.draft >= 7) {
            let branch = match self.same(schema, value, meeting) {
                Ok(()) => fields.get("then"),
                Err(_) => fields.get("else"),
            };
            if let Some(branch) = branch {
                let check = self.same(branch, value, meeting);
                meeting.take(check);
            }
        }
    }
}

/// What is wrong with a value as a whole; where something is, nothing else is looked at.
fn refused_at_once(draft: u16, fields: &Map<String, Json>, value: &Json) -> Option<String> {
    if let Some(types) = fields.get("type") {
        let wanted = |name: &str| match types {
            Json::Array(types) => types.iter().any(|it| it == name),
            one => one == name,
        };
        let got = type_of(value);
        let whole = matches!(value, Json::Number(it) if numbers::is_integer(it));
        if !wanted(got) && !(whole && wanted("integer")) {
            const ORDER: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];
            let names: Vec<&str> = ORDER.into_iter().filter(|it| wanted(it)).collect();
            return Some(format!("got {got}, want {}", names.join(" or ")));
        }
    }
    if let Some(refused) = refused_const(draft, fields, value) {
        return Some(refused);
    }
    if let Some(Json::Array(wanted)) = fields.get("enum")
        && !wanted.iter().any(|it| equal(value, it))
    {
        let shown: Vec<String> = wanted.iter().map(shown).collect();
        return Some(match shown.as_slice() {
            _ if wanted.iter().any(|it| it.is_array() || it.is_object()) => "'enum' failed".to_owned(),
            [one] => format!("value must be {one}"),
            more => format!("value must be one of {}", more.join(", ")),
        });
    }
    // Since draft 2019 a format is a remark.
    if let (Json::String(text), Some(Json::String(format))) = (value, fields.get("format"))
        && draft < 2019
        && let Err(why) = formats::check(format, text)
    {
        return Some(format!("{} is not valid {format}: {why}", quoted(text)));
    }
    None
}

fn refused_const(draft: u16, fields: &Map<String, Json>, value: &Json) -> Option<String> {
    let wanted = fields.get("const").filter(|it| draft > 4 && !equal(value, it))?;
    Some(match wanted {
        Json::Array(_) | Json::Object(_) => "'const' failed".to_owned(),
        wanted => format!("value must be {}", shown(wanted)),
    })
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => quoted(text),
        Json::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

fn equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => numbers::compare(a, b) == Ordering::Equal,
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn missing<'a>(value: &Map<String, Json>, wanted: Option<&'a Json>) -> Vec<&'a str> {
    let wanted = wanted.and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let names = wanted.iter().filter_map(Json::as_str);
    names.filter(|it| !value.contains_key(*it)).collect()
}

fn entries<'a>(fields: &'a Map<String, Json>, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Json)> {
    fields.get(keyword).and_then(Json::as_object).into_iter().flatten()
}
