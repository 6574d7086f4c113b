//! The v2 document as the protobuf message `openapi.v2.Document` of gnostic, which kubectl 1.26 and older insist on.
//!
//! Only the members that our documents use are written. Field numbers are those of gnostic's `OpenAPIv2.proto`.

use serde_json::{Map, Value};

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, message: Message) {
        self.bytes(field, &message.0);
    }

    /// A string member; left out when the JSON has none.
    fn text(&mut self, field: u32, value: &Value) {
        if let Some(text) = value.as_str().filter(|it| !it.is_empty()) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u32, value: &Value) {
        for text in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn flag(&mut self, field: u32, value: &Value) {
        if value == true {
            self.tag(field, 0);
            self.varint(1);
        }
    }

    fn integer(&mut self, field: u32, value: &Value) {
        if let Some(number) = value.as_i64() {
            self.tag(field, 0);
            self.varint(number as u64);
        }
    }

    fn double(&mut self, field: u32, value: &Value) {
        if let Some(number) = value.as_f64() {
            self.tag(field, 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// `NamedX { name = 1; value = 2 }`.
fn named(name: &str, value: Message) -> Message {
    let mut message = Message::default();
    message.bytes(1, name.as_bytes());
    message.message(2, value);
    message
}

/// `Any { yaml = 2 }`; JSON is YAML.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, value.to_string().as_bytes());
    message
}

/// The `x-` members of an object.
fn vendor_extensions(message: &mut Message, field: u32, value: &Value) {
    for (name, value) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
        message.message(field, named(name, any(value)));
    }
}

/// The whole document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    message.message(2, info);
    let mut paths = Message::default();
    for (path, item) in entries(&document["paths"]) {
        paths.message(2, named(path, path_item(item)));
    }
    message.message(8, paths);
    let mut definitions = Message::default();
    for (name, definition) in entries(&document["definitions"]) {
        definitions.message(1, named(name, schema(definition)));
    }
    message.message(9, definitions);
    message.0
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (field, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if item[method].is_object() {
            message.message(field, operation(&item[method]));
        }
    }
    for it in item["parameters"].as_array().into_iter().flatten() {
        message.message(9, parameter(it));
    }
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.texts(6, &operation["produces"]);
    message.texts(7, &operation["consumes"]);
    for it in operation["parameters"].as_array().into_iter().flatten() {
        message.message(8, parameter(it));
    }
    let mut responses = Message::default();
    for (code, it) in entries(&operation["responses"]) {
        let mut response = Message::default();
        response.text(1, &it["description"]);
        if it["schema"].is_object() {
            let mut item = Message::default();
            item.message(1, schema(&it["schema"]));
            response.message(2, item);
        }
        let mut value = Message::default();
        value.message(1, response);
        responses.message(1, named(code, value));
    }
    message.message(9, responses);
    vendor_extensions(&mut message, 13, operation);
    message
}

/// `ParametersItem`.
fn parameter(parameter: &Value) -> Message {
    let mut choice = Message::default();
    let mut message = Message::default();
    let place = parameter["in"].as_str().unwrap_or_default();
    if place == "body" {
        message.text(2, &parameter["name"]);
        message.text(3, &parameter["in"]);
        message.flag(4, &parameter["required"]);
        message.message(5, schema(&parameter["schema"]));
        choice.message(1, message);
    } else {
        let query = place == "query";
        message.flag(1, &parameter["required"]);
        message.text(2, &parameter["in"]);
        message.text(4, &parameter["name"]);
        message.text(if query { 6 } else { 5 }, &parameter["type"]);
        let mut non_body = Message::default();
        non_body.message(if query { 3 } else { 4 }, message);
        choice.message(2, non_body);
    }
    let mut item = Message::default();
    item.message(1, choice);
    item
}

fn schema(value: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, &value["$ref"]);
    message.text(2, &value["format"]);
    message.text(4, &value["description"]);
    if !value["default"].is_null() {
        message.message(5, any(&value["default"]));
    }
    message.double(6, &value["multipleOf"]);
    message.double(7, &value["maximum"]);
    message.double(9, &value["minimum"]);
    message.integer(11, &value["maxLength"]);
    message.integer(12, &value["minLength"]);
    message.text(13, &value["pattern"]);
    message.integer(14, &value["maxItems"]);
    message.integer(15, &value["minItems"]);
    message.integer(17, &value["maxProperties"]);
    message.integer(18, &value["minProperties"]);
    message.texts(19, &value["required"]);
    for it in value["enum"].as_array().into_iter().flatten() {
        message.message(20, any(it));
    }
    match &value["additionalProperties"] {
        Value::Bool(on) => {
            let mut item = Message::default();
            item.tag(2, 0);
            item.varint(u64::from(*on));
            message.message(21, item);
        }
        it if it.is_object() => {
            let mut item = Message::default();
            item.message(1, schema(it));
            message.message(21, item);
        }
        _ => {}
    }
    if value["type"].is_string() {
        let mut item = Message::default();
        item.text(1, &value["type"]);
        message.message(22, item);
    }
    if value["items"].is_object() {
        let mut item = Message::default();
        item.message(1, schema(&value["items"]));
        message.message(23, item);
    }
    for it in value["allOf"].as_array().into_iter().flatten() {
        message.message(24, schema(it));
    }
    if value["properties"].is_object() {
        let mut properties = Message::default();
        for (name, it) in entries(&value["properties"]) {
            properties.message(1, named(name, schema(it)));
        }
        message.message(25, properties);
    }
    vendor_extensions(&mut message, 31, value);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_small_document_is_the_bytes_that_gnostic_reads() {
        let document = json!({"swagger": "2.0", "info": {"title": "K", "version": "v"}, "paths": {}, "definitions": {
            "A": {"type": "object", "x-k": 1},
        }});
        let expected: &[u8] = &[
            0x0a, 3, b'2', b'.', b'0', // swagger
            0x12, 6, 0x0a, 1, b'K', 0x12, 1, b'v', // info
            0x42, 0, // paths
            0x4a, 31, // definitions
            0x0a, 29, 0x0a, 1, b'A', 0x12, 24, // one, with its name
            0xb2, 1, 8, 0x0a, 6, b'o', b'b', b'j', b'e', b'c', b't', // type
            0xfa, 1, 10, 0x0a, 3, b'x', b'-', b'k', 0x12, 3, 0x12, 1, b'1', // extension
        ];
        assert_eq!(encode(&document), expected);
    }
}
