//! The functions that OCM's add-on framework gives to plain manifest templates.

use crate::functions::Functions;
use crate::gofmt::display;
use crate::value::Value;

impl Functions {
    /// What templates of the add-on framework may call beside Go's own: `notBefore`, `notAfter`, `issuer` (of a PEM
    /// certificate), `base64`, `indent`, `load`, `regexMatch`. Those of sprig are there too, which the framework lacks.
    pub fn addon() -> Functions {
        let mut functions = Functions::sprig();
        add(&mut functions);
        functions
    }
}

fn add(functions: &mut Functions) {
    functions.add("notBefore", "any", |_, args| {
        certificate(&args[0], |it| Ok(Value::from(rfc3339(it.validity().not_before)?)))
    });
    functions.add("notAfter", "any", |_, args| {
        certificate(&args[0], |it| Ok(Value::from(rfc3339(it.validity().not_after)?)))
    });
    functions.add("issuer", "any", |_, args| {
        certificate(&args[0], |it| {
            let name = it.issuer().iter_common_name().next().and_then(|it| it.as_str().ok());
            Ok(Value::from(name.unwrap_or_default()))
        })
    });
    functions.add("base64", "any", |_, args| {
        Ok(Value::from(crate::base64_of(&bytes(&args[0]))))
    });
    functions.add("indent", "int any", |_, args| {
        let Value::Int(width, _) = args[0] else {
            return Err("the indentation is no number".to_owned());
        };
        let pad = " ".repeat(usize::try_from(width).unwrap_or(0).min(1000));
        let text = String::from_utf8_lossy(&bytes(&args[1])).replace('\n', &format!("\n{pad}"));
        crate::limits::check_text(text.len())?;
        Ok(Value::string_of_bytes(format!("{pad}{text}").into_bytes()))
    });
    functions.add("load", "string any", |_, args| {
        let entry = match &args[1].underlying() {
            Value::Map(map) => map.get(&display(&args[0])),
            _ => None,
        };
        Ok(entry.map_or_else(|| Value::Bytes([].into()), |it| Value::Bytes(bytes(&it).into())))
    });
    functions.add("regexMatch", "string string", |_, args| {
        let pattern = go_regex::compile(&display(&args[0])).map_err(|error| error.to_string())?;
        Ok(Value::Bool(pattern.is_match(&display(&args[1]))))
    });
}

fn bytes(value: &Value) -> Vec<u8> {
    match value.as_bytes() {
        Some(bytes) => bytes.to_vec(),
        None if value.is_nil() => Vec::new(),
        None => display(value).into_bytes(),
    }
}

// No certificate is no answer rather than an error: the Secret may not be filled yet.
fn certificate(
    pem: &Value,
    tell: impl Fn(&x509_parser::certificate::X509Certificate<'_>) -> Result<Value, String>,
) -> Result<Value, String> {
    let pem = bytes(pem);
    if pem.is_empty() {
        return Ok(Value::from(""));
    }
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).map_err(|error| error.to_string())?;
    let it = block.parse_x509().map_err(|error| error.to_string())?;
    tell(&it)
}

fn rfc3339(time: x509_parser::time::ASN1Time) -> Result<String, String> {
    let time = jiff::Timestamp::from_second(time.timestamp()).map_err(|error| error.to_string())?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
