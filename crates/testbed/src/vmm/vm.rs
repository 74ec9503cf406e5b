// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A VM, from its making to its end.

use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kvm_bindings::{KVM_CAP_HALT_POLL, kvm_enable_cap};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use seccompiler::BpfProgram;
use vcpu_state::{LoopState, VcpuIndex, VcpuTable};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::arch;
use super::config::{HaltMechanism, VmConfig};
use super::console::{ConsoleOutput, console};
use super::devices::Devices;
use super::error::{Error, VcpuError};
use super::event_loop::{self, Console, Ends, Quit, TickRate, Ticker};
use super::halt::HaltHandler;
use super::interrupts::{Interrupts, Vector};
use super::kick::{self, Vcpus};
use super::mailbox::SharedMailbox;
use super::memory::{self, Memory};
use super::stats::vcpu_stats;
use super::thread::ThreadId;
use super::vcpu::{self, VcpuContext, VcpuReport};
use super::{loader, seccomp};

/// No vCPU takes longer to stop, unless the kernel hangs.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long to look for a change in guest memory at a time.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// A VM whose vCPUs have ended, in the order of their indices.
#[derive(Debug)]
pub struct VmReport {
    /// How each vCPU ended.
    pub vcpus: Vec<VcpuReport>,
    /// What the guest printed, the latest 64 KiB.
    pub console: String,
}

/// A VM. Dropping it ends it.
pub struct Vm {
    config: VmConfig,
    /// vCPUs that do not run yet, in the order of their indices.
    idle: Vec<VcpuFd>,
    /// The kernel's statistics of each vCPU.
    stats: Vec<Option<File>>,
    vcpus: Arc<Vcpus>,
    interrupts: Interrupts,
    context: VcpuContext,
    console: ConsoleOutput,
    /// The tick that the event loop injects, where it does.
    tick: Arc<TickRate>,
    threads: Vec<JoinHandle<()>>,
    event_loop: Option<EventLoop>,
    ended: Arc<EventFd>,
    retired: (Sender<Retired>, Receiver<Retired>),
    /// Reports of the vCPUs that have ended so far.
    reports: Vec<Option<VcpuReport>>,
    fd: Arc<VmFd>,
    /// Last: KVM uses it until the VM and its vCPUs are gone. Each vCPU's thread holds it, too.
    memory: Memory,
}

struct EventLoop {
    thread: JoinHandle<Result<(), Error>>,
    quit: Arc<AtomicBool>,
    wake: Arc<EventFd>,
}

impl Vm {
    /// Makes a VM; nothing runs yet.
    ///
    /// # Errors
    ///
    /// [`Error::Kvm`] without `/dev/kvm` or the permission to use it, and when it lacks what the VM
    /// needs; [`Error::VcpuCount`]; others when the host is out of something.
    pub fn new(config: VmConfig) -> Result<Self, Error> {
        let count = config.vcpus;
        if count == 0 || count > arch::layout::MAX_VCPUS {
            return Err(Error::VcpuCount { count, limit: arch::layout::MAX_VCPUS });
        }
        kick::install_handler()?;
        seccomp::install_handler()?;

        let kvm = Kvm::new().map_err(Error::kvm("opening /dev/kvm"))?;
        let fd = Arc::new(kvm.create_vm().map_err(Error::kvm("KVM_CREATE_VM"))?);
        let memory = memory::map()?;
        memory::register(&fd, &memory)?;
        arch::create_irqchip(&fd, config.irqchip)?;
        arch::write_tables(&memory)?;
        let entry = loader::load(&memory)?;
        loader::write_boot_info(&memory, &config)?;

        let table = VcpuTable::new(count)
            .map_err(|_| Error::VcpuCount { count, limit: arch::layout::MAX_VCPUS })?;
        let (mut idle, mut stats) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for index in table.indices() {
            let vcpu = fd.create_vcpu(index.get() as u64).map_err(Error::kvm("KVM_CREATE_VCPU"))?;
            arch::setup_vcpu(&kvm, &vcpu, index, &config, entry)?;
            stats.push(vcpu_stats(&vcpu));
            idle.push(vcpu);
        }

        let vcpus = Arc::new(Vcpus::new(table));
        let mechanism = config.halt_mechanism();
        let interrupts = match mechanism {
            HaltMechanism::InKernel => Interrupts::by_kernel(fd.clone(), vcpus.clone()),
            HaltMechanism::UserSpace => Interrupts::by_loop(vcpus.clone()),
        };
        let tick = Arc::new(TickRate::new(config.tick_hz)?);
        let (input, output) = console()?;
        let context = VcpuContext {
            vcpus: vcpus.clone(),
            interrupts: interrupts.clone(),
            devices: Arc::new(Mutex::new(Devices::new(input))),
            mechanism,
            _memory: memory.clone(),
        };
        Ok(Self {
            config,
            idle,
            stats,
            vcpus,
            interrupts,
            context,
            console: output,
            tick,
            threads: Vec::new(),
            event_loop: None,
            ended: Arc::new(EventFd::new(EFD_NONBLOCK).map_err(Error::system("eventfd"))?),
            retired: channel(),
            reports: (0..count).map(|_| None).collect(),
            fd,
            memory,
        })
    }

    /// Starts the event loop and all vCPUs, once. `halts` makes each vCPU's halt handler; where the
    /// kernel handles halts ([`HaltMechanism::InKernel`]) it is never used.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] the second time; others when the host is out of something.
    pub fn start(
        &mut self,
        mut halts: impl FnMut(usize) -> Box<dyn HaltHandler>,
    ) -> Result<(), Error> {
        if self.event_loop.is_some() {
            return Err(Error::NotRunning);
        }
        self.start_event_loop()?;
        for (index, fd) in self.vcpus.table.indices().zip(std::mem::take(&mut self.idle)) {
            let handler = halts(index.get());
            let filter = seccomp::vcpu_filter(match self.config.halt_mechanism() {
                HaltMechanism::UserSpace => handler.system_calls(),
                HaltMechanism::InKernel => &[],
            })?;
            self.start_vcpu(index, fd, handler, filter)?;
        }
        Ok(())
    }

    fn start_event_loop(&mut self) -> Result<(), Error> {
        let wake = Arc::new(EventFd::new(EFD_NONBLOCK).map_err(Error::system("eventfd"))?);
        let quit = Arc::new(AtomicBool::new(false));
        let quits = quit.clone();
        let mut subscribers: Vec<Box<dyn event_loop::Subscriber>> = vec![
            Box::new(Quit(wake.clone())),
            Box::new(Console(self.console.clone())),
            Box::new(Ends { ended: self.ended.clone(), vcpus: self.vcpus.clone() }),
        ];
        if self.config.halt_mechanism() == HaltMechanism::UserSpace {
            let (tick, interrupts) = (self.tick.clone(), self.interrupts.clone());
            subscribers.push(Box::new(Ticker::new(tick, interrupts, self.config.vcpus)?));
        }
        let manager = event_loop::manager(subscribers)?;
        let thread = thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || event_loop::run(manager, &quits))
            .map_err(Error::system("starting a thread"))?;
        self.event_loop = Some(EventLoop { thread, quit, wake });
        Ok(())
    }

    fn start_vcpu(
        &mut self,
        index: VcpuIndex,
        mut fd: VcpuFd,
        mut handler: Box<dyn HaltHandler>,
        filter: BpfProgram,
    ) -> Result<(), Error> {
        let context = self.context.clone();
        let mut leaving = Leaving {
            index: index.get(),
            vcpus: self.vcpus.clone(),
            ended: self.ended.clone(),
            retired: self.retired.0.clone(),
        };
        let cpus = &self.config.cpus;
        let cpu = index.get().checked_rem(cpus.len()).and_then(|place| cpus.get(place).copied());
        let (ready, started) = channel();
        let thread = thread::Builder::new()
            .name(format!("vcpu{}", index.get()))
            .spawn(move || {
                leaving.vcpus.set_thread(index.get(), Some(ThreadId::current()));
                // Before the guest runs: a vCPU that polls would keep the caller off its CPU.
                let pinned = cpu.map_or(Ok(()), |cpu| ThreadId::current().pin(cpu));
                // Whoever made this thread waits for it, and ends it if it is misplaced.
                let _ = ready.send(pinned);
                let report = match seccompiler::apply_filter(&filter) {
                    Ok(()) => vcpu::run(&context, index, &mut fd, &mut *handler),
                    Err(error) => VcpuReport::failed(VcpuError::SeccompInstall(error)),
                };
                leaving.with(report, fd, handler);
            })
            .map_err(Error::system("starting a thread"))?;
        self.threads.push(thread);
        let pinned = started.recv().map_err(|_| Error::Panicked(index.get()))?;
        pinned.map_err(Error::system("sched_setaffinity"))?;
        Ok(())
    }

    /// Raises interrupts of this VM, from any thread.
    pub fn interrupts(&self) -> Interrupts {
        self.interrupts.clone()
    }

    /// A vCPU's mailbox, for any thread; it outlives the VM.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVcpu`].
    pub fn mailbox(&self, index: usize) -> Result<SharedMailbox, Error> {
        self.vcpus.index(index)?;
        SharedMailbox::new(&self.memory, index)
    }

    /// What each vCPU's loop does.
    pub fn table(&self) -> &VcpuTable {
        &self.vcpus.table
    }

    /// A vCPU's thread, while it runs.
    pub fn thread(&self, index: usize) -> Option<ThreadId> {
        self.vcpus.thread(index)
    }

    /// CPU time that a vCPU's thread has used so far, in the guest, in KVM and in the VMM.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] before its start and after its end.
    pub fn cpu_time(&self, index: usize) -> Result<Duration, Error> {
        let thread = self.thread(index).ok_or(Error::NotRunning)?;
        thread.cpu_time().map_err(Error::system("clock_gettime"))
    }

    /// The kernel's statistics of a vCPU, in the layout of `KVM_GET_STATS_FD`; `None` if the kernel
    /// has none.
    pub fn stats(&self, index: usize) -> Option<&File> {
        self.stats.get(index)?.as_ref()
    }

    /// Sets this VM's ceiling of the kernel's own halt polling, at once and as often as wanted; 0
    /// turns it off. Says nothing about halts in user space.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] before Linux 5.8, [`Error::Kvm`].
    pub fn set_halt_poll_ns(&self, ceiling_ns: u32) -> Result<(), Error> {
        if self.fd.check_extension_raw(KVM_CAP_HALT_POLL.into()) <= 0 {
            return Err(Error::Unsupported("KVM_CAP_HALT_POLL"));
        }
        let mut cap = kvm_enable_cap { cap: KVM_CAP_HALT_POLL, ..Default::default() };
        cap.args[0] = ceiling_ns.into();
        self.fd.enable_cap(&cap).map_err(Error::kvm("KVM_CAP_HALT_POLL"))
    }

    /// Gives each vCPU this many ticks a second; 0: none. Where the guest has a tick of its own,
    /// waits until it took over the new rate: it has to run, unpaused.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if a guest with its own tick does not take over the rate within
    /// 5 seconds.
    pub fn set_tick_hz(&self, hz: u32) -> Result<(), Error> {
        if self.config.halt_mechanism() == HaltMechanism::UserSpace {
            return self.tick.set(hz);
        }
        let tick_ns = 1_000_000_000_u32.checked_div(hz).unwrap_or(0);
        for index in 0..self.config.vcpus {
            let mailbox = self.mailbox(index)?;
            // Something else first, so that the answer is a new one.
            mailbox.tick_ns_set.store(u32::MAX, Ordering::Relaxed);
            mailbox.tick_ns.store(tick_ns, Ordering::Release);
            self.interrupts.raise(index, Vector::SetTick)?;
            wait_until("the guest to change its tick", || {
                mailbox.tick_ns_set.load(Ordering::Acquire) == tick_ns
            })?;
        }
        Ok(())
    }

    /// Takes all vCPUs out of the guest and keeps them there: from its return on until
    /// [`resume`](Self::resume) they use no CPU time, but for the last steps into their sleep.
    /// Interrupts that are raised meanwhile wait. To be quite idle, stop the tick first
    /// ([`set_tick_hz`](Self::set_tick_hz)).
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if a vCPU is not out within 5 seconds, or has ended.
    pub fn pause(&self) -> Result<(), Error> {
        self.vcpus.pause();
        for index in self.vcpus.table.indices() {
            wait_until("the vCPUs to pause", || {
                let state = self.vcpus.table.loop_state(index);
                if state == Ok(LoopState::InGuest) {
                    // Whoever was told to signal for an earlier request may not have done so yet.
                    self.vcpus.signal(index);
                }
                state == Ok(LoopState::Paused)
            })?;
        }
        Ok(())
    }

    /// Lets all vCPUs go on where they were.
    pub fn resume(&self) {
        self.vcpus.resume();
    }

    /// What the guest has printed so far, the latest 64 KiB.
    pub fn console(&self) -> String {
        self.console.text()
    }

    /// Waits until all vCPUs run their program: interrupts reach them.
    ///
    /// # Errors
    ///
    /// [`Error::EndedEarly`], [`Error::TimedOut`].
    pub fn wait_ready(&mut self, limit: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        for index in 0..self.config.vcpus {
            let mailbox = self.mailbox(index)?;
            while !mailbox.is_ready() {
                self.look_for_ends();
                if let Some((index, report)) =
                    self.reports.iter().enumerate().find_map(|(i, r)| Some((i, r.as_ref()?)))
                {
                    return Err(Error::EndedEarly { index, end: report.end.to_string() });
                }
                if begin.elapsed() > limit {
                    return Err(Error::TimedOut { what: "the guest to boot", after: limit });
                }
                thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// Waits until the guest has ended by itself, or failed, and ends the VM.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]: it goes on. Otherwise as [`stop`](Self::stop).
    pub fn wait(mut self, limit: Duration) -> Result<VmReport, Error> {
        let begin = Instant::now();
        while self.reports.iter().all(Option::is_none) {
            let Some(rest) = limit.checked_sub(begin.elapsed()) else {
                return Err(Error::TimedOut { what: "the guest to end", after: limit });
            };
            if let Ok(retired) = self.retired.1.recv_timeout(rest) {
                self.note(retired);
            }
        }
        self.end()
    }

    /// Ends the VM, whatever the guest does.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if a vCPU's thread does not come back, [`Error::Panicked`] if its halt
    /// handler panicked, [`Error::EventLoop`], [`Error::EventLoopPanicked`].
    pub fn stop(mut self) -> Result<VmReport, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<VmReport, Error> {
        let begin = Instant::now();
        let running = self.threads.len();
        self.look_for_ends();
        while self.reports.iter().flatten().count() < running {
            self.vcpus.end();
            if let Ok(retired) = self.retired.1.recv_timeout(Duration::from_millis(20)) {
                self.note(retired);
            }
            if begin.elapsed() > STOP_LIMIT {
                return Err(Error::TimedOut { what: "the vCPUs to stop", after: STOP_LIMIT });
            }
        }
        let mut result = Ok(());
        for (index, thread) in self.threads.drain(..).enumerate() {
            if thread.join().is_err() {
                result = Err(Error::Panicked(index));
            }
        }
        if let Some(EventLoop { thread, quit, wake }) = self.event_loop.take() {
            quit.store(true, Ordering::Release);
            wake.write(1).map_err(Error::system("eventfd write"))?;
            match thread.join() {
                Ok(ended) => ended?,
                Err(_) => return Err(Error::EventLoopPanicked),
            }
        }
        result?;
        let vcpus = self.reports.iter_mut().filter_map(Option::take).collect();
        Ok(VmReport { vcpus, console: self.console() })
    }

    fn look_for_ends(&mut self) {
        while let Ok(retired) = self.retired.1.try_recv() {
            self.note(retired);
        }
    }

    /// Here, outside the seccomp filter, the vCPU's file descriptor is closed.
    fn note(&mut self, retired: Retired) {
        if let Some(slot) = self.reports.get_mut(retired.index) {
            let panicked = || VcpuReport::failed(VcpuError::Panicked);
            *slot = Some(retired.vcpu.map_or_else(panicked, |(report, ..)| report));
        }
    }
}

fn wait_until(what: &'static str, done: impl Fn() -> bool) -> Result<(), Error> {
    let begin = Instant::now();
    while !done() {
        if begin.elapsed() > STOP_LIMIT {
            return Err(Error::TimedOut { what, after: STOP_LIMIT });
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Who wants to know calls `stop`.
        drop(self.end());
    }
}

impl fmt::Debug for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vm").field("config", &self.config).field("vcpus", &self.vcpus).finish()
    }
}

/// A vCPU that its thread gives back; `None` if it panicked.
struct Retired {
    index: usize,
    vcpu: Option<(VcpuReport, VcpuFd, Box<dyn HaltHandler>)>,
}

/// Tells that a vCPU's thread leaves its loop, also by a panic.
struct Leaving {
    index: usize,
    vcpus: Arc<Vcpus>,
    ended: Arc<EventFd>,
    retired: Sender<Retired>,
}

impl Leaving {
    fn with(&mut self, report: VcpuReport, fd: VcpuFd, handler: Box<dyn HaltHandler>) {
        self.send(Some((report, fd, handler)));
    }

    fn send(&self, vcpu: Option<(VcpuReport, VcpuFd, Box<dyn HaltHandler>)>) {
        self.vcpus.set_thread(self.index, None);
        // Nobody listens only when the VM is gone, and then there is nobody to tell.
        drop(self.retired.send(Retired { index: self.index, vcpu }));
        drop(self.ended.write(1));
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if thread::panicking() {
            self.send(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use kvm_ioctls::VcpuExit;

    use super::super::config::{Irqchip, Program};
    use super::super::kick::RunFlag;
    use super::*;

    /// A vCPU that no thread runs yet; `None` and a report without KVM.
    fn idle_vcpu(test: &str, program: Program) -> Option<(Vm, VcpuFd)> {
        match Vm::new(VmConfig::new(program, Irqchip::UserSpace)) {
            Ok(mut vm) => {
                let vcpu = vm.idle.remove(0);
                Some((vm, vcpu))
            }
            Err(error @ Error::Kvm { call: "opening /dev/kvm", .. }) => {
                skipped::skip(test, &error.to_string());
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_kick_before_the_entry_ends_the_entry() {
        let test = "a_kick_before_the_entry_ends_the_entry";
        let Some((_vm, mut vcpu)) = idle_vcpu(test, Program::Count) else { return };
        let flag = RunFlag::new(&mut vcpu);
        let this = ThreadId::current();
        // Handled here and now, before KVM_RUN.
        kick::signal(this).unwrap();
        // Should that be forgotten, this ends the guest after all.
        let (done, waits) = channel::<()>();
        let backstop = thread::spawn(move || {
            if waits.recv_timeout(Duration::from_secs(2)).is_err() {
                kick::signal(this).unwrap();
            }
        });
        let begin = Instant::now();
        assert!(matches!(vcpu.run(), Err(error) if error.errno() == libc::EINTR));
        let entry = begin.elapsed();
        flag.clear();
        let _ = done.send(());
        backstop.join().unwrap();
        assert!(entry < Duration::from_secs(1), "{entry:?}: the guest ran on");
    }

    #[test]
    fn a_vector_that_is_injected_is_not_replaced_before_the_guest_took_it() {
        let test = "a_vector_that_is_injected_is_not_replaced_before_the_guest_took_it";
        let Some((vm, mut vcpu)) = idle_vcpu(test, Program::Idle) else { return };
        let mailbox = vm.mailbox(0).unwrap();
        for request in 1..=3 {
            while !matches!(vcpu.run().unwrap(), VcpuExit::Hlt) {}
            assert!(arch::can_inject(&mut vcpu));
            mailbox.post(request);
            arch::inject(&mut vcpu, Vector::Request.number()).unwrap();
            assert!(!arch::can_inject(&mut vcpu));
        }
        assert_eq!(mailbox.answered(), 2);
    }
}
