// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Results as JSON: one array of flat rows, a row to a line. docs/results.md names the fields.

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;

use super::destination::Destination;

/// The rows as text.
///
/// # Errors
///
/// A row that is not flat: an object whose values are all null, booleans, numbers or strings.
pub fn to_string<T: Serialize>(rows: &[T]) -> anyhow::Result<String> {
    let mut text = String::from("[");
    for (index, row) in rows.iter().enumerate() {
        // Text first: a `Value` would sort the fields.
        let row = serde_json::to_string(row).context("a row cannot be written as JSON")?;
        ensure!(is_flat(&row), "row {index} is not flat: {row}");
        text.push_str(if index == 0 { "\n  " } else { ",\n  " });
        text.push_str(&row);
    }
    text.push_str(if rows.is_empty() { "]\n" } else { "\n]\n" });
    Ok(text)
}

/// Writes the rows to where the user wants them, if at all.
///
/// # Errors
///
/// Those of [`to_string`] and of [`Destination::write`].
pub fn write<T: Serialize>(destination: Option<&Destination>, rows: &[T]) -> anyhow::Result<()> {
    match destination {
        Some(destination) => destination.write(to_string(rows)?.as_bytes()),
        None => Ok(()),
    }
}

fn is_flat(row: &str) -> bool {
    let fields = serde_json::from_str::<serde_json::Map<String, Value>>(row);
    fields.is_ok_and(|row| row.values().all(|value| !value.is_array() && !value.is_object()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        ratio: f64,
    }

    #[test]
    fn rows_come_out_as_an_array_with_the_fields_of_the_struct() {
        let text = to_string(&[Row { name: "a", ratio: 1.5 }, Row { name: "b", ratio: f64::NAN }]);
        let text = text.unwrap();
        assert!(text.contains(r#"{"name":"a","ratio":1.5}"#), "fields in order: {text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            serde_json::json!([{"name": "a", "ratio": 1.5}, {"name": "b", "ratio": null}])
        );
    }

    #[test]
    fn no_rows_are_an_empty_array() {
        assert_eq!(to_string::<Row>(&[]).unwrap(), "[]\n");
    }

    #[test]
    fn nested_rows_are_refused() {
        assert!(to_string(&[serde_json::json!({"a": [1]})]).is_err());
        assert!(to_string(&[1]).is_err());
    }
}
