// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Whatever the guest does wrong ends in a typed error that says where.

use testbed::vmm::{BlockHalts, Irqchip, Program, VcpuEnd, VcpuError, Vm, VmConfig, VmReport, abi};

use super::kvm::{LIMIT, turn};

fn run(program: Program) -> VmReport {
    let mut vm = Vm::new(VmConfig::new(program, Irqchip::UserSpace)).unwrap();
    vm.start(|_| Box::new(BlockHalts)).unwrap();
    vm.wait(LIMIT).unwrap()
}

#[test]
fn undefined_instruction_is_reported_by_the_guest_itself() {
    let Some(_turn) = turn("undefined_instruction_is_reported_by_the_guest_itself") else { return };
    let report = run(Program::Undefined);
    let VcpuEnd::Guest(status) = report.vcpus[0].end else { panic!("{report:?}") };
    assert_eq!(status, abi::STATUS_EXCEPTION + 6);
    assert!(report.console.starts_with("guest exception 0x0000000000000006"), "{report:?}");
}

#[test]
fn guest_panic_says_where() {
    let Some(_turn) = turn("guest_panic_says_where") else { return };
    let report = run(Program::Panic);
    assert!(matches!(report.vcpus[0].end, VcpuEnd::Guest(abi::STATUS_PANIC)), "{report:?}");
    assert!(report.console.contains("program.rs line 0x"), "{report:?}");
}

#[test]
fn triple_fault_is_a_shutdown_with_registers() {
    let Some(_turn) = turn("triple_fault_is_a_shutdown_with_registers") else { return };
    let report = run(Program::TripleFault);
    let VcpuEnd::Failed(error @ VcpuError::Shutdown { registers }) = &report.vcpus[0].end else {
        panic!("{report:?}");
    };
    assert!(registers.general.is_some() && registers.system.is_some());
    assert!(error.to_string().contains("rip 0x"), "{error}");
}

#[test]
fn unknown_port_is_named() {
    let Some(_turn) = turn("unknown_port_is_named") else { return };
    let report = run(Program::UnknownPort);
    let VcpuEnd::Failed(VcpuError::UnknownPort { port, size, write, .. }) = report.vcpus[0].end
    else {
        panic!("{report:?}");
    };
    assert_eq!((port, size, write), (abi::PORT_NOBODY, 1, true));
}

#[test]
fn unknown_address_is_named() {
    let Some(_turn) = turn("unknown_address_is_named") else { return };
    let report = run(Program::UnknownMemory);
    let VcpuEnd::Failed(VcpuError::UnknownAddress { address, write, .. }) = report.vcpus[0].end
    else {
        panic!("{report:?}");
    };
    assert_eq!((address, write), (abi::ADDRESS_NOBODY, false));
}
