// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A naive model of KVM's halt polling, for comparison.
//!
//! It is written from the description of what the kernel does, not from the crate: wide signed
//! arithmetic, one step after the other, nothing shared with the code under test.

/// A setting that somebody changes.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    HaltPollNs(u32),
    Grow(u32),
    GrowStart(u32),
    Shrink(u32),
    VmCeiling(u32),
    PollControl(u64),
    Steal(u32),
    MaxSteal(Option<u32>),
}

/// What the kernel does, step by step. Windows are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Model {
    halt_poll_ns: i128,
    grow: i128,
    grow_start: i128,
    shrink: i128,
    vm_ceiling: Option<i128>,
    poll_control: bool,
    steal: u32,
    max_steal: Option<u32>,
    pub(crate) window: i128,
    pub(crate) allowed: bool,
}

/// What the tracepoint shows: old and new window.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    None,
    Grow(i128, i128),
    Shrink(i128, i128),
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            halt_poll_ns: 200_000,
            grow: 2,
            grow_start: 10_000,
            shrink: 2,
            vm_ceiling: None,
            poll_control: true,
            steal: 0,
            max_steal: None,
            window: 0,
            allowed: true,
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::HaltPollNs(ns) => self.halt_poll_ns = ns.into(),
            Change::Grow(factor) => self.grow = factor.into(),
            Change::GrowStart(ns) => self.grow_start = ns.into(),
            Change::Shrink(divisor) => self.shrink = divisor.into(),
            Change::VmCeiling(ns) => self.vm_ceiling = Some(ns.into()),
            // Reserved bits are refused and change nothing.
            Change::PollControl(value) if value > 1 => {}
            Change::PollControl(value) => self.poll_control = value == 1,
            Change::Steal(percent) => self.steal = percent,
            Change::MaxSteal(percent) => self.max_steal = percent,
        }
    }

    pub(crate) fn max(&self) -> i128 {
        self.vm_ceiling.unwrap_or(self.halt_poll_ns)
    }

    /// The window to poll for.
    pub(crate) fn begin(&mut self) -> i128 {
        if self.window > self.max() {
            self.window = self.max();
        }
        let stolen = match self.max_steal {
            None => false,
            Some(max) => self.steal >= max,
        };
        self.allowed = self.poll_control && !stolen;
        if self.allowed { self.window } else { 0 }
    }

    /// After a halt of `halt` nanoseconds.
    pub(crate) fn end(&mut self, halt: i128, valid: bool) -> Line {
        if !self.allowed {
            return Line::None;
        }
        let (old, max) = (self.window, self.max());
        if !valid {
            return self.shrink();
        }
        if max == 0 {
            self.window = 0;
            return Line::None;
        }
        if halt <= old {
            return Line::None;
        }
        if old != 0 && halt > max {
            return self.shrink();
        }
        if old < max && halt < max {
            let mut new = old;
            if self.grow != 0 {
                new = (old * self.grow) % (1 << 32);
                if new < self.grow_start {
                    new = self.grow_start;
                }
            }
            self.window = new;
            return Line::Grow(old, new);
        }
        Line::None
    }

    fn shrink(&mut self) -> Line {
        let old = self.window;
        let mut new = if self.shrink == 0 { 0 } else { old / self.shrink };
        if new < self.grow_start {
            new = 0;
        }
        self.window = new;
        Line::Shrink(old, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model itself, on the example that can be followed by hand.
    #[test]
    fn the_model_grows_clamps_and_shrinks() {
        let mut model = Model::new();
        assert_eq!(model.begin(), 0);
        assert_eq!(model.end(50_000, true), Line::Grow(0, 10_000));
        assert_eq!(model.end(50_000, true), Line::Grow(10_000, 20_000));
        assert_eq!(model.end(20_000, true), Line::None);
        assert_eq!(model.end(200_001, true), Line::Shrink(20_000, 10_000));
        assert_eq!(model.end(200_001, true), Line::Shrink(10_000, 0));
        model.apply(Change::HaltPollNs(15_000));
        assert_eq!(model.end(10, true), Line::Grow(0, 10_000));
        assert_eq!(model.end(12_000, true), Line::Grow(10_000, 20_000));
        assert_eq!(model.begin(), 15_000);
        model.apply(Change::HaltPollNs(0));
        assert_eq!(model.end(1, true), Line::None);
        assert_eq!(model.window, 0);
    }
}
