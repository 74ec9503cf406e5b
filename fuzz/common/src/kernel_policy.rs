// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `KernelPolicy`, its gate, its parameters and the counters against a naive model.

use arbitrary::{Result, Unstructured};
use halt_poll::{
    Adjustment, Counters, Gated, Halt, KernelParams, KernelPolicy, Policy, SharedKernelParams,
    VmOverride,
};

use crate::kernel_model::{Change, Line, Model};
use crate::seed::{Bytes, Seed};

/// Something that happens to a VM and its one vCPU.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The vCPU halts; `meanwhile` happens after its window was decided.
    Halt { length: Length, valid: bool, late: bool, meanwhile: Option<Change> },
    /// Somebody changes a setting between two halts.
    Change(Change),
}

/// How long a halt takes.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// This many nanoseconds.
    Absolute(u64),
    /// This far from the window (`true`) or from the ceiling: the comparisons' edges.
    Near { window: bool, offset: i8 },
}

impl Event {
    fn read(input: &mut Unstructured<'_>) -> Result<Self> {
        let kind: u8 = input.arbitrary()?;
        if kind & 1 == 1 {
            return Ok(Self::Change(Change::read(input)?));
        }
        let length = if kind & 2 == 0 {
            // Any magnitude, from few bytes.
            let mantissa: u32 = input.arbitrary()?;
            Length::Absolute(u64::from(mantissa) << ((kind >> 6) * 8))
        } else {
            Length::Near { window: kind & 0x40 == 0, offset: input.arbitrary()? }
        };
        let meanwhile = if kind & 4 == 0 { None } else { Some(Change::read(input)?) };
        Ok(Self::Halt { length, valid: kind & 8 == 0, late: kind & 0x10 != 0, meanwhile })
    }
}

impl Change {
    fn read(input: &mut Unstructured<'_>) -> Result<Self> {
        let kind: u8 = input.arbitrary()?;
        Ok(match kind % 8 {
            0 => Self::HaltPollNs(input.arbitrary()?),
            // Small factors are the interesting ones; a large one wraps in 32 bits.
            1 => Self::Grow(u32::from(input.arbitrary::<u8>()?) << (kind / 8)),
            2 => Self::GrowStart(input.arbitrary()?),
            3 => Self::Shrink(u32::from(input.arbitrary::<u8>()?) << (kind / 8)),
            4 => Self::VmCeiling(input.arbitrary()?),
            5 => Self::PollControl(u64::from(kind / 8)),
            6 => Self::Steal(u32::from(kind / 8)),
            _ => Self::MaxSteal(if kind < 128 { None } else { Some(u32::from(kind / 8 - 16)) }),
        })
    }
}

/// The code under test, composed as a VMM would.
struct Subject<'a> {
    host: &'a SharedKernelParams,
    vm: &'a VmOverride<&'a SharedKernelParams>,
    gated: Gated<KernelPolicy<&'a VmOverride<&'a SharedKernelParams>>>,
    /// The same without the gate, to see what each halt did.
    plain: KernelPolicy<&'a VmOverride<&'a SharedKernelParams>>,
    counters: Counters,
}

impl Subject<'_> {
    fn apply(&mut self, change: Change) {
        match change {
            Change::HaltPollNs(ns) => self.host.set_halt_poll_ns(ns),
            Change::Grow(factor) => self.host.set_grow(factor),
            Change::GrowStart(ns) => self.host.set_grow_start(ns),
            Change::Shrink(divisor) => self.host.set_shrink(divisor),
            Change::VmCeiling(ns) => self.vm.set(ns),
            Change::PollControl(value) => {
                assert_eq!(self.gated.set_poll_control(value).is_err(), value > 1);
            }
            Change::Steal(percent) => self.gated.set_steal(percent),
            Change::MaxSteal(percent) => self.gated.set_max_steal(percent),
        }
    }
}

/// Runs one input.
///
/// # Panics
///
/// Where the code under test and the model differ.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let host = SharedKernelParams::new(KernelParams::X86);
    let vm = VmOverride::new(&host);
    let mut subject = Subject {
        host: &host,
        vm: &vm,
        gated: Gated::new(KernelPolicy::new(&vm)),
        plain: KernelPolicy::new(&vm),
        counters: Counters::default(),
    };
    let mut model = Model::new();
    let mut now = 0_u64;
    // Halts that polled, that polled with success, that slept.
    let (mut attempted, mut successful, mut slept) = (0, 0, 0);

    while !input.is_empty() {
        let Ok(event) = Event::read(&mut input) else { break };
        match event {
            Event::Change(change) => {
                model.apply(change);
                subject.apply(change);
            }
            Event::Halt { length, valid, late, meanwhile } => {
                let window = subject.gated.window(now);
                let plain = subject.plain.window(now);
                assert_eq!(i128::from(window), model.begin(), "{event:?} {model:?}");
                if let Some(change) = meanwhile {
                    model.apply(change);
                    subject.apply(change);
                }
                let halt = halt(length, window, valid, late, now, &model);
                subject.gated.record(&halt);
                if model.allowed {
                    assert_eq!(plain, window);
                    let line = line(subject.plain.adjust(&halt));
                    let expected = model.end(halt.halt_ns.into(), valid);
                    assert_eq!(line, expected, "{halt:?} {model:?}");
                }
                let windows = (subject.gated.policy().window_ns(), subject.plain.window_ns());
                assert_eq!(windows.0, windows.1, "the gate changes nothing else");
                assert_eq!(i128::from(windows.0), model.window, "{halt:?} {model:?}");

                subject.counters.record(&halt);
                attempted += u64::from(window > 0);
                successful += u64::from(window > 0 && !halt.slept);
                slept += u64::from(halt.slept);
                now = now.wrapping_add(halt.halt_ns);
            }
        }
    }
    let counters = subject.counters;
    assert_eq!(counters.attempted, attempted);
    assert_eq!(counters.successful, successful);
    assert_eq!(counters.wakeup, slept);
    let sum = |buckets: &[u64]| buckets.iter().sum::<u64>();
    assert_eq!(sum(counters.success_hist.buckets()), successful);
    assert_eq!(sum(counters.fail_hist.buckets()), attempted - successful);
    assert_eq!(sum(counters.wait_hist.buckets()), slept);
}

fn line(adjustment: Adjustment) -> Line {
    let line = match adjustment {
        Adjustment::Grow { from, to } => Line::Grow(from.into(), to.into()),
        Adjustment::Shrink { from, to } => Line::Shrink(from.into(), to.into()),
        Adjustment::Keep | Adjustment::Off { .. } => Line::None,
        other => panic!("the model does not know {other:?}"),
    };
    assert_eq!(adjustment.is_traced(), line != Line::None);
    line
}

/// The halt as a driver would report it: it slept if it outlasted its window, unless the event
/// came in the last moment (`late`).
fn halt(length: Length, window: u32, valid: bool, late: bool, now: u64, model: &Model) -> Halt {
    let halt_ns = match length {
        Length::Absolute(ns) => ns,
        Length::Near { window: true, offset } => {
            u64::from(window).saturating_add_signed(offset.into())
        }
        Length::Near { window: false, offset } => {
            u64::try_from(model.max()).unwrap_or(0).saturating_add_signed(offset.into())
        }
    };
    let halt = if halt_ns <= u64::from(window) || late && window > 0 {
        Halt::polled(now, window, halt_ns)
    } else {
        Halt::slept(now, window, window.into(), halt_ns)
    };
    if valid { halt } else { halt.invalid() }
}

/// Inputs that reach what is worth reaching.
pub fn seeds() -> Vec<Seed> {
    let halt = |ns: u32| Bytes::default().u8(0).u32(ns);
    let invalid = |ns: u32| Bytes::default().u8(8).u32(ns);
    let near_window = |offset: i8| Bytes::default().u8(2).u8(offset.to_le_bytes()[0]);
    let near_ceiling = |offset: i8| Bytes::default().u8(0x42).u8(offset.to_le_bytes()[0]);
    let change = |kind: u8| Bytes::default().u8(1).u8(kind);
    let all =
        |parts: &[Bytes]| parts.iter().fold(Bytes::default(), |bytes, part| bytes.repeat(1, part));
    vec![
        Bytes::default().named("empty"),
        all(&[halt(50_000), halt(150_000), halt(150_000), halt(5_000_000), halt(5_000_000)])
            .named("grows_and_shrinks"),
        Bytes::default()
            .repeat(4, &halt(150_000))
            .repeat(1, &change(0).u32(0))
            .repeat(2, &halt(1_000))
            .named("ceiling_0_stops_polling"),
        // The ceiling goes away between the window and the record.
        Bytes::default()
            .repeat(3, &halt(150_000))
            .repeat(1, &Bytes::default().u8(4).u32(90_000).u8(0).u32(0))
            .repeat(1, &halt(1_000))
            .named("ceiling_0_during_a_halt"),
        all(&[change(1).u8(255), halt(60_000), halt(60_000), halt(150_000), halt(150_000)])
            .named("growth_wraps"),
        all(&[change(0).u32(u32::MAX), change(1 + 8 * 23).u8(255), halt(60_000), halt(150_000)])
            .named("growth_wraps_at_once"),
        all(&[change(1).u8(0), halt(60_000), change(2).u32(0), change(1).u8(3), halt(60_000)])
            .named("growth_of_0_and_no_floor"),
        all(&[halt(60_000), halt(60_000), change(3).u8(0), halt(5_000_000), halt(60_000)])
            .named("shrink_to_0"),
        all(&[halt(60_000), halt(60_000), invalid(1), invalid(1), invalid(1)])
            .named("invalid_wakeups"),
        Bytes::default()
            .repeat(3, &halt(150_000))
            .repeat(1, &all(&[near_window(-1), near_window(0), near_window(1)]))
            .repeat(1, &all(&[near_ceiling(-1), near_ceiling(0), near_ceiling(1)]))
            .named("edges"),
        all(&[change(4).u32(30_000), halt(20_000), halt(20_000), halt(20_000), change(0).u32(0)])
            .repeat(2, &halt(25_000))
            .named("a_vm_with_its_own_ceiling"),
        all(&[halt(60_000), halt(60_000), change(5), halt(60_000), change(5 + 8), halt(60_000)])
            .repeat(1, &change(5 + 16))
            .named("poll_control"),
        all(&[halt(60_000), change(7 + 8 * 26), change(6 + 8 * 10), halt(60_000), change(6)])
            .repeat(2, &halt(60_000))
            .named("steal_veto"),
        // Enormous halts, and events that come at the last moment.
        all(&[Bytes::default().u8(0xC0).u32(u32::MAX), Bytes::default().u8(0x10).u32(150_000)])
            .repeat(3, &Bytes::default().u8(0x10).u32(150_000))
            .named("long_and_late"),
    ]
}
