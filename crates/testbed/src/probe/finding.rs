// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! One thing that a host has or lacks.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A number or a text; numbers have their unit in the finding's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value {
    /// A count or a number of nanoseconds.
    Integer(i64),
    /// A measured figure.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// One thing that a host has or lacks, a row of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// What. A stable name.
    pub name: Cow<'static, str>,
    /// Whether it is there and works.
    pub available: bool,
    /// How much or which, where that says more.
    pub value: Option<Value>,
    /// Why not; or, if it is there, how that was told.
    pub reason: String,
}

impl Finding {
    /// It is there.
    pub(super) fn here(name: impl Into<Cow<'static, str>>, how: impl Into<String>) -> Self {
        Self { name: name.into(), available: true, value: None, reason: how.into() }
    }

    /// It is not there.
    pub(super) fn missing(name: impl Into<Cow<'static, str>>, why: impl Into<String>) -> Self {
        Self { name: name.into(), available: false, value: None, reason: why.into() }
    }

    /// With a value.
    pub(super) fn value(self, value: impl Into<Value>) -> Self {
        Self { value: Some(value.into()), ..self }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => write!(f, "{value:.1}"),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// The findings as text, a line each; the reason, which is long, comes last.
pub(super) fn table(findings: &[Finding]) -> String {
    let value = |finding: &Finding| {
        finding.value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)
    };
    let width = |cell: &dyn Fn(&Finding) -> usize| findings.iter().map(cell).max().unwrap_or(0);
    let names = width(&|finding| finding.name.chars().count());
    let values = width(&|finding| value(finding).chars().count()).min(32);
    findings
        .iter()
        .map(|finding| {
            let (name, here) = (&finding.name, if finding.available { "yes" } else { "no" });
            let (value, reason) = (value(finding), &finding.reason);
            format!("{name:names$}  {here:3}  {value:values$}  {reason}\n")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_json_has_exactly_the_promised_fields() {
        let finding = Finding::here("cpus", "counted").value(2);
        let json = serde_json::to_value(&finding).unwrap();
        let expected = serde_json::json!(
            {"name": "cpus", "available": true, "value": 2, "reason": "counted"}
        );
        assert_eq!(json, expected);
        let missing = serde_json::to_value(Finding::missing("x", "no x")).unwrap();
        assert_eq!(missing["value"], serde_json::Value::Null);
        assert_eq!(serde_json::from_value::<Finding>(json).unwrap(), finding);
    }

    #[test]
    fn columns_line_up_and_the_reason_is_last() {
        let findings =
            [Finding::here("long name", "told").value(1.25), Finding::missing("x", "no x")];
        assert_eq!(table(&findings), "long name  yes  1.2  told\nx          no   -    no x\n");
    }
}
