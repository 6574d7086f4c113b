//! The functions a template may call, each with the parameters it declares.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::exec::Call;
use crate::value::Value;

/// What a function's parameter is in Go. It decides what is accepted and what the refusal says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Param {
    /// `interface{}`: anything, nil included.
    Any,
    /// `reflect.Value`: anything, as text/template's own functions take it.
    Raw,
    Str,
    Int,
    Int64,
    Uint32,
    Float,
    Bool,
    Bytes,
    /// `[]interface{}`
    List,
    /// `[]string`
    Strings,
    /// `map[string]interface{}`
    Dict,
}

impl Param {
    /// As `%s` of the Go type prints.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Param::Any => "interface {}",
            Param::Raw => "reflect.Value",
            Param::Str => "string",
            Param::Int => "int",
            Param::Int64 => "int64",
            Param::Uint32 => "uint32",
            Param::Float => "float64",
            Param::Bool => "bool",
            Param::Bytes => "[]uint8",
            Param::List => "[]interface {}",
            Param::Strings => "[]string",
            Param::Dict => "map[string]interface {}",
        }
    }

    pub(crate) fn can_be_nil(self) -> bool {
        matches!(
            self,
            Param::Any | Param::Raw | Param::Bytes | Param::List | Param::Strings | Param::Dict
        )
    }
}

/// What the parameters of a function or method are.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub params: Vec<Param>,
    pub variadic: bool,
}

impl Signature {
    /// Reads `"string int ...any"`.
    pub fn parse(text: &str) -> Signature {
        let mut signature = Signature {
            params: Vec::new(),
            variadic: false,
        };
        for word in text.split_whitespace() {
            let (word, variadic) = match word.strip_prefix("...") {
                Some(word) => (word, true),
                None => (word, false),
            };
            signature.variadic |= variadic;
            signature.params.push(match word {
                "string" => Param::Str,
                "int" => Param::Int,
                "int64" => Param::Int64,
                "uint32" => Param::Uint32,
                "float" => Param::Float,
                "bool" => Param::Bool,
                "bytes" => Param::Bytes,
                "list" => Param::List,
                "strings" => Param::Strings,
                "dict" => Param::Dict,
                "raw" => Param::Raw,
                _ => Param::Any,
            });
        }
        signature
    }
}

type Body = dyn Fn(&Call<'_>, &[Value]) -> Result<Value, String> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Function {
    pub signature: Signature,
    pub body: Arc<Body>,
    /// `and` and `or` of the engine itself look at one argument after the other.
    pub builtin: bool,
}

/// A set of functions. Cheap to clone; a later one of the same name replaces an earlier one.
#[derive(Clone, Default)]
pub struct Functions {
    named: Arc<HashMap<&'static str, Function>>,
}

impl Functions {
    /// What text/template itself has: `and`, `call`, `eq`, `index`, `len`, `printf` and so on.
    pub fn builtin() -> Functions {
        let mut functions = Functions::default();
        crate::builtins::add(&mut functions);
        for function in Arc::make_mut(&mut functions.named).values_mut() {
            function.builtin = true;
        }
        functions
    }

    /// The functions of the engine and those of sprig that do not read the environment or the network.
    pub fn sprig() -> Functions {
        static MADE: OnceLock<Functions> = OnceLock::new();
        let make = || {
            let mut functions = Functions::builtin();
            crate::sprig::add(&mut functions);
            functions
        };
        MADE.get_or_init(make).clone()
    }

    /// What Helm gives to charts.
    pub fn helm() -> Functions {
        static MADE: OnceLock<Functions> = OnceLock::new();
        let make = || {
            let mut functions = Functions::sprig();
            crate::helm::functions::add(&mut functions);
            functions
        };
        MADE.get_or_init(make).clone()
    }

    /// Adds a function. `parameters` names the Go types of its parameters, separated by spaces: `any`, `string`, `int`,
    /// `int64`, `uint32`, `float`, `bool`, `bytes`, `list`, `strings`, `dict`; a last one may be variadic:
    /// `"string ...any"`. The arguments that the function gets are of these types.
    pub fn add(
        &mut self,
        name: &'static str,
        parameters: &str,
        body: impl Fn(&Call<'_>, &[Value]) -> Result<Value, String> + Send + Sync + 'static,
    ) {
        let function = Function {
            signature: Signature::parse(parameters),
            body: Arc::new(body),
            builtin: false,
        };
        Arc::make_mut(&mut self.named).insert(name, function);
    }

    /// Adds a function that the [`crate::Host`] of an execution answers. `parameters` are as in [`Functions::add`].
    pub fn add_hosted(&mut self, name: &'static str, parameters: &str) {
        self.add(name, parameters, move |call, args| match call.run.host {
            Some(host) => host.call(call, name, args),
            None => Err(format!("{name} is not available here")),
        });
    }

    /// Takes functions away.
    pub fn remove(&mut self, names: &[&'static str]) {
        for name in names {
            Arc::make_mut(&mut self.named).remove(name);
        }
    }

    /// Gives a function a second name.
    pub fn alias(&mut self, alias: &'static str, name: &str) {
        if let Some(function) = self.named.get(name).cloned() {
            Arc::make_mut(&mut self.named).insert(alias, function);
        }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.named.contains_key(name)
    }

    /// The names of all functions, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.named.keys().copied().collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Function> {
        self.named.get(name)
    }
}
