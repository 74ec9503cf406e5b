// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The halt-polling parameters of this host's kvm module.

use std::path::Path;

use anyhow::Context;
use halt_poll::KernelParams;

/// Where the kvm module shows its parameters.
pub(super) const MODULE: &str = "/sys/module/kvm/parameters";

/// The kvm module's halt-polling parameters; `None` when there is no such module.
///
/// # Errors
///
/// A parameter is there and cannot be understood.
pub(super) fn module_params() -> anyhow::Result<Option<KernelParams>> {
    params_in(Path::new(MODULE))
}

fn params_in(folder: &Path) -> anyhow::Result<Option<KernelParams>> {
    let read = |name: &str| -> anyhow::Result<Option<u32>> {
        let path = folder.join(name);
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
        let text = text.trim();
        let number =
            text.parse().with_context(|| format!("{} is `{text}`, no number", path.display()))?;
        Ok(Some(number))
    };
    Ok(
        match (
            read("halt_poll_ns")?,
            read("halt_poll_ns_grow")?,
            read("halt_poll_ns_grow_start")?,
            read("halt_poll_ns_shrink")?,
        ) {
            (Some(halt_poll_ns), Some(grow), Some(grow_start), Some(shrink)) => {
                Some(KernelParams { halt_poll_ns, grow, grow_start, shrink })
            }
            _ => None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_parameters_are_all_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        assert_eq!(params_in(folder.path()).unwrap(), None);
        write("halt_poll_ns", "50000\n");
        write("halt_poll_ns_grow", "3\n");
        write("halt_poll_ns_shrink", "0\n");
        assert_eq!(params_in(folder.path()).unwrap(), None);
        write("halt_poll_ns_grow_start", "11000\n");
        let params = KernelParams { halt_poll_ns: 50_000, grow: 3, grow_start: 11_000, shrink: 0 };
        assert_eq!(params_in(folder.path()).unwrap(), Some(params));
        write("halt_poll_ns_grow", "many\n");
        let error = params_in(folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("halt_poll_ns_grow is `many`"), "{error:#}");
    }
}
