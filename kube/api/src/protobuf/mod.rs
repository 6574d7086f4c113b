//! Protobuf request bodies of built-in kinds: Go clients send them by default and do not fall back to JSON.
//!
//! A body is four magic bytes and an envelope that names the kind; the rest is the message of that kind. It is turned
//! into the JSON value that the same client would have sent. Field numbers come from a table made at build time, JSON
//! names from the kind's schema. Responses are always JSON, which these clients accept.

mod facts;
mod messages;
mod wire;

use facts::{inline, is_pointer, json_name};
use kube_store::{
    object,
    schema::{Schema, Type},
};
use messages::{Field, FieldKind, Message};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use wire::{Reader, Wire};

/// Media type of the envelope.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8; 4] = b"k8s\0";
/// Messages in messages: deeper than any real object, and it bounds the stack.
const DEPTH_MAX: usize = 64;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: illegal wire type or tag")]
    Malformed,
    #[error("proto: messages are nested too deeply")]
    TooDeep,
    #[error("no kind {kind:?} is registered for version {api_version:?} in protobuf form")]
    UnknownKind { api_version: String, kind: String },
}

/// Reads an enveloped object. `default` is the version and kind of the path, for envelopes that leave them out.
///
/// # Errors
/// When the bytes are no envelope, are cut short, or name a kind without a protobuf form.
pub fn to_json(bytes: &[u8], default: (&str, &str)) -> Result<Value, Error> {
    let value = enveloped(bytes, default, 0)?;
    // JSON inside of it may be as deep as JSON by itself.
    if object::is_deeper(&value, object::DEPTH_MAX, &mut 0) {
        return Err(Error::TooDeep);
    }
    Ok(value)
}

fn enveloped(bytes: &[u8], default: (&str, &str), depth: usize) -> Result<Value, Error> {
    let mut envelope = Reader::new(bytes.strip_prefix(MAGIC).ok_or(Error::Prefix)?);
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    while let Some((number, value)) = envelope.next()? {
        match (number, value) {
            (1, Wire::Bytes(bytes)) => {
                let mut meta = Reader::new(bytes);
                while let Some((number, value)) = meta.next()? {
                    match (number, value) {
                        (1, Wire::Bytes(it)) => api_version = String::from_utf8_lossy(it).into_owned(),
                        (2, Wire::Bytes(it)) => kind = String::from_utf8_lossy(it).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    if api_version.is_empty() {
        api_version = default.0.to_owned();
    }
    if kind.is_empty() {
        kind = default.1.to_owned();
    }
    let unknown = || Error::UnknownKind {
        api_version: api_version.clone(),
        kind: kind.clone(),
    };
    let message = messages::of_kind(&api_version, &kind).ok_or_else(unknown)?;
    let (group, version) = crate::group_version::split_api_version(&api_version);
    let schema = crate::builtin_schemas::schema(group, version, &kind);
    let mut value = decode(raw, message, schema.as_deref(), depth)?;
    value.insert("apiVersion".into(), api_version.into());
    value.insert("kind".into(), kind.into());
    Ok(Value::Object(value))
}

type Object = Map<String, Value>;

fn decode(bytes: &[u8], message: Message, schema: Option<&Schema>, depth: usize) -> Result<Object, Error> {
    if depth > DEPTH_MAX {
        return Err(Error::TooDeep);
    }
    let mut object = Object::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        let Some(field) = message.field(number) else { continue };
        field_into(&mut object, message, &field, value, schema, depth)?;
    }
    Ok(object)
}

/// The property of a schema that a protobuf field stands for: they differ in case and underscores only.
fn property<'s>(schema: Option<&'s Schema>, field: &str) -> Option<(&'s String, &'s Arc<Schema>)> {
    let same = |name: &str| {
        let wanted = field.bytes().filter(|it| *it != b'_');
        let given = name.bytes().filter(|it| !matches!(it, b'_' | b'-' | b'$'));
        wanted
            .map(|it| it.to_ascii_lowercase())
            .eq(given.map(|it| it.to_ascii_lowercase()))
    };
    schema?.properties.iter().find(|(name, _)| same(name))
}

fn field_into(
    object: &mut Object,
    message: Message,
    field: &Field<'_>,
    value: Wire<'_>,
    schema: Option<&Schema>,
    depth: usize,
) -> Result<(), Error> {
    let found = property(schema, field.name);
    // An embedded Go struct is a message of its own on the wire and part of its parent in JSON.
    if found.is_none()
        && inline(message.name(), field.name)
        && let (FieldKind::Message(inner), Wire::Bytes(bytes)) = (field.kind, value)
        && let Some(inner) = messages::named(inner)
    {
        object.extend(decode(bytes, inner, schema, depth + 1)?);
        return Ok(());
    }
    let name = found.map_or_else(|| json_name(field.name), |(name, _)| name.clone());
    let below = found.map(|(_, it)| &**it);
    if field.map {
        let Wire::Bytes(bytes) = value else {
            return Err(Error::Malformed);
        };
        let mut entry = Reader::new(bytes);
        let (mut key, mut content) = (String::new(), None);
        let inner = below.and_then(|it| it.additional.as_deref());
        while let Some((number, value)) = entry.next()? {
            match (number, value) {
                (1, Wire::Bytes(it)) => key = String::from_utf8_lossy(it).into_owned(),
                (2, value) => content = one(field.kind, value, inner, depth)?,
                _ => {}
            }
        }
        let map = object.entry(name).or_insert_with(|| json!({}));
        map[key] = content.unwrap_or_else(|| empty(field.kind));
        return Ok(());
    }
    if field.repeated {
        let inner = below.and_then(|it| it.items.as_deref());
        let list = object.entry(name).or_insert_with(|| json!([]));
        let Some(list) = list.as_array_mut() else {
            return Err(Error::Malformed);
        };
        if let (FieldKind::Integer, Wire::Bytes(packed)) = (field.kind, value) {
            let mut packed = Reader::new(packed);
            while let Some(number) = packed.varint()? {
                list.push((number as i64).into());
            }
            return Ok(());
        }
        list.push(one(field.kind, value, inner, depth)?.unwrap_or_else(|| empty(field.kind)));
        return Ok(());
    }
    let Some(content) = one(field.kind, value, below, depth)? else {
        return Ok(());
    };
    // Go writes every plain field, empty or not, and leaves the empty ones out of JSON; a pointer is only there when
    // set. So is a message, whatever it stands for in JSON: 0 of a disruption budget means none.
    let plain = !matches!(field.kind, FieldKind::Message(_));
    let is_empty = plain && (content == Value::Bool(false) || content == 0 || content == "" || content == 0.0);
    if is_empty && !is_pointer(message.name(), &name) && !schema.is_some_and(|it| it.required.contains(&name)) {
        return Ok(());
    }
    object.insert(name, content);
    Ok(())
}

fn empty(kind: FieldKind<'_>) -> Value {
    match kind {
        FieldKind::Text | FieldKind::Bytes => "".into(),
        FieldKind::Integer => 0.into(),
        FieldKind::Truth => false.into(),
        FieldKind::Double => 0.0.into(),
        FieldKind::Message(_) => json!({}),
    }
}

/// One value; `None` for what JSON leaves out, such as an empty time.
fn one(kind: FieldKind<'_>, value: Wire<'_>, schema: Option<&Schema>, depth: usize) -> Result<Option<Value>, Error> {
    Ok(Some(match (kind, value) {
        (FieldKind::Text, Wire::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned().into(),
        (FieldKind::Bytes, Wire::Bytes(bytes)) => base64(bytes).into(),
        (FieldKind::Integer, Wire::Number(number)) => (number as i64).into(),
        (FieldKind::Truth, Wire::Number(number)) => (number != 0).into(),
        (FieldKind::Double, Wire::Fixed64(bits)) => f64::from_bits(bits).into(),
        (FieldKind::Double, Wire::Fixed32(bits)) => f64::from(f32::from_bits(bits)).into(),
        (FieldKind::Message(name), Wire::Bytes(bytes)) => return message_value(name, bytes, schema, depth),
        _ => return Err(Error::Malformed),
    }))
}

fn base64(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

/// Messages that JSON writes as something else than an object.
fn message_value(name: &str, bytes: &[u8], schema: Option<&Schema>, depth: usize) -> Result<Option<Value>, Error> {
    // As prost writes it: no acronym in capitals.
    let short = name.rsplit('.').next().unwrap_or_default();
    let Some(message) = messages::named(name) else {
        return Err(Error::Malformed);
    };
    let plain = |schema| decode(bytes, message, schema, depth + 1);
    Ok(match short {
        "Time" | "MicroTime" => time(bytes, short == "MicroTime")?,
        "Quantity" => Some(plain(None)?.remove("string").unwrap_or_else(|| "".into())),
        "IntOrString" => {
            let mut parts = plain(None)?;
            let text = parts.get("type").is_some_and(|it| *it == 1);
            let (key, default) = if text {
                ("strVal", json!(""))
            } else {
                ("intVal", json!(0))
            };
            Some(parts.remove(key).unwrap_or(default))
        }
        "RawExtension" | "Json" | "FieldsV1" => raw_json(bytes, depth + 1)?,
        "ExtraValue" | "Verbs" => Some(plain(None)?.remove("items").unwrap_or_else(|| json!([]))),
        "JsonSchemaPropsOrBool" => {
            let mut parts = plain(None)?;
            Some(
                parts
                    .remove("$schema")
                    .unwrap_or_else(|| parts.remove("allows").unwrap_or(json!(false))),
            )
        }
        "JsonSchemaPropsOrArray" => {
            let mut parts = plain(None)?;
            parts.remove("$schema").or_else(|| parts.remove("jSONSchemas"))
        }
        "JsonSchemaPropsOrStringArray" => {
            let mut parts = plain(None)?;
            parts.remove("$schema").or_else(|| parts.remove("property"))
        }
        _ => Some(Value::Object(plain(schema.filter(|it| it.ty == Type::Object))?)),
    })
}

fn time(bytes: &[u8], micros: bool) -> Result<Option<Value>, Error> {
    let (mut seconds, mut nanos) = (None, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, Wire::Number(it)) => seconds = Some(it as i64),
            (2, Wire::Number(it)) => nanos = it as i32,
            _ => {}
        }
    }
    let Some(seconds) = seconds else { return Ok(None) };
    let at = jiff::Timestamp::new(seconds, nanos).map_err(|_| Error::Malformed)?;
    let form = if micros {
        "%Y-%m-%dT%H:%M:%S.%6fZ"
    } else {
        "%Y-%m-%dT%H:%M:%SZ"
    };
    Ok(Some(at.strftime(form).to_string().into()))
}

/// JSON inside protobuf, itself possibly enveloped protobuf.
fn raw_json(bytes: &[u8], depth: usize) -> Result<Option<Value>, Error> {
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if let (1, Wire::Bytes(raw)) = (number, value) {
            return if raw.starts_with(MAGIC) {
                enveloped(raw, ("", ""), depth).map(Some)
            } else {
                serde_json::from_slice(raw).map(Some).map_err(|_| Error::Malformed)
            };
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
