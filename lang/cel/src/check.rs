//! Whether everything that an expression names exists, and the engine can do what it asks: the engine would say so, or
//! panic, only when it gets there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr,
    common::ast::{CallExpr, EntryExpr, Expr},
};

use crate::{CompileError, functions};

/// Functions of the engine that Kubernetes does not have.
const REFUSED: [&str; 4] = ["isIPv4", "isIPv6", "isCIDRv4", "isCIDRv6"];

/// Checks a whole expression over these variables.
pub fn check(root: &Context<'_>, text: &str, expression: &IdedExpr, variables: &[&str]) -> Result<(), CompileError> {
    let mut scope = variables.iter().map(|it| (*it).to_owned()).collect();
    Checker { root, text }.check(expression, &mut scope)
}

struct Checker<'a> {
    root: &'a Context<'a>,
    text: &'a str,
}

impl Checker<'_> {
    fn undeclared(&self, name: &str) -> CompileError {
        let needle = name.rsplit('.').next().unwrap_or(name);
        CompileError::at(
            self.text,
            needle,
            &format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn check(&self, it: &IdedExpr, scope: &mut Vec<String>) -> Result<(), CompileError> {
        match &it.expr {
            Expr::Unspecified => Err(CompileError("the expression is empty".to_owned())),
            Expr::Struct(it) => Err(self.undeclared(&it.type_name)),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) if scope.contains(name) || functions::is_type(name) => Ok(()),
            Expr::Ident(name) => Err(self.undeclared(name)),
            Expr::Select(select) => self.check(&select.operand, scope),
            Expr::List(it) => it.elements.iter().try_for_each(|it| self.check(it, scope)),
            Expr::Map(it) => it.entries.iter().try_for_each(|entry| {
                let EntryExpr::MapEntry(entry) = &entry.expr else {
                    return Err(CompileError("a map has keys".to_owned()));
                };
                self.check(&entry.key, scope)?;
                self.check(&entry.value, scope)
            }),
            Expr::Comprehension(it) => {
                self.check(&it.iter_range, scope)?;
                self.check(&it.accu_init, scope)?;
                let outside = scope.len();
                scope.push(it.accu_var.clone());
                scope.push(it.iter_var.clone());
                scope.extend(it.iter_var2.clone());
                for part in [&it.loop_cond, &it.loop_step, &it.result] {
                    self.check(part, scope)?;
                }
                scope.truncate(outside);
                Ok(())
            }
            Expr::Call(call) => self.call(call, scope),
        }
    }

    fn call(&self, call: &CallExpr, scope: &mut Vec<String>) -> Result<(), CompileError> {
        let mut name = call.func_name.clone();
        match call.target.as_deref() {
            Some(IdedExpr {
                expr: Expr::Ident(prefix),
                ..
            }) if !scope.contains(prefix) => {
                name = format!("{prefix}.{name}");
                if !self.has_function(&name) {
                    return Err(self.undeclared(prefix));
                }
            }
            Some(target) => self.check(target, scope)?,
            None => {}
        }
        if !self.has_function(&name) {
            return Err(self.undeclared(&name));
        }
        call.args.iter().try_for_each(|it| self.check(it, scope))
    }

    /// Whether the function is there: the engine looks for it before it looks at the arguments.
    fn has_function(&self, name: &str) -> bool {
        if !name.starts_with(|it: char| it.is_ascii_alphabetic()) {
            return true;
        }
        if REFUSED.contains(&name) {
            return false;
        }
        let call = call(name, Vec::new());
        let answer = catch_unwind(AssertUnwindSafe(|| self.root.resolve(&call)));
        !matches!(answer, Ok(Err(ExecutionError::UndeclaredReference(missing))) if *missing == name)
    }
}

/// A call of a function.
pub fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }),
    }
}

/// Calls `visit` with every direct sub-expression.
pub fn for_each_child<'e>(expression: &'e IdedExpr, visit: &mut dyn FnMut(&'e IdedExpr)) {
    match &expression.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|it| visit(it));
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(it) => {
            visit(&it.iter_range);
            visit(&it.accu_init);
            visit(&it.loop_cond);
            visit(&it.loop_step);
            visit(&it.result);
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Select(select) => visit(&select.operand),
        Expr::Map(map) => map.entries.iter().for_each(|it| entry(&it.expr, visit)),
        Expr::Struct(it) => it.entries.iter().for_each(|it| entry(&it.expr, visit)),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn entry<'e>(entry: &'e EntryExpr, visit: &mut dyn FnMut(&'e IdedExpr)) {
    match entry {
        EntryExpr::StructField(it) => visit(&it.value),
        EntryExpr::MapEntry(it) => {
            visit(&it.key);
            visit(&it.value);
        }
    }
}

/// Whether an expression names a variable.
pub fn mentions(expression: &IdedExpr, variable: &str) -> bool {
    if matches!(&expression.expr, Expr::Ident(name) if name == variable) {
        return true;
    }
    let mut found = false;
    for_each_child(expression, &mut |it| found = found || mentions(it, variable));
    found
}
