// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The VM's devices: a serial port for text, a register that ends a vCPU, a doorbell that does
//! nothing.

use std::convert::Infallible;

use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};

use super::abi::{PORT_DOORBELL, PORT_EXIT, PORT_SERIAL};
use super::console::ConsoleInput;

/// Registers of an 8250.
const SERIAL_REGISTERS: u16 = 8;

/// Nobody listens to the serial port's interrupt: the guest writes only.
struct NoInterrupt;

impl Trigger for NoInterrupt {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// What came of an access.
#[derive(Debug)]
pub(super) enum Access {
    /// The device did what it had to.
    Done,
    /// The vCPU ends with this status.
    Exit(u32),
    /// No device is there.
    Nobody,
    /// The device failed.
    Failed(String),
}

/// All devices of a VM.
pub(super) struct Devices {
    serial: Serial<NoInterrupt, NoEvents, ConsoleInput>,
}

impl Devices {
    pub(super) fn new(console: ConsoleInput) -> Self {
        Self { serial: Serial::new(NoInterrupt, console) }
    }

    /// The guest wrote `data` to `port`. A string instruction brings several bytes at once.
    pub(super) fn write(&mut self, port: u16, data: &[u8]) -> Access {
        if let Some(register) = serial_register(port) {
            for byte in data {
                if let Err(error) = self.serial.write(register, *byte) {
                    return Access::Failed(format!("{error:?}"));
                }
            }
            return Access::Done;
        }
        match (port, data) {
            (PORT_DOORBELL, _) => Access::Done,
            (PORT_EXIT, &[a, b, c, d]) => Access::Exit(u32::from_le_bytes([a, b, c, d])),
            _ => Access::Nobody,
        }
    }

    /// The guest reads `port`.
    pub(super) fn read(&mut self, port: u16, data: &mut [u8]) -> Access {
        let Some(register) = serial_register(port) else {
            return Access::Nobody;
        };
        for byte in data {
            *byte = self.serial.read(register);
        }
        Access::Done
    }
}

fn serial_register(port: u16) -> Option<u8> {
    let register = port.checked_sub(PORT_SERIAL)?;
    u8::try_from(register).ok().filter(|_| register < SERIAL_REGISTERS)
}

#[cfg(test)]
mod tests {
    use super::super::abi::PORT_NOBODY;
    use super::super::console::{ConsoleOutput, console};
    use super::*;

    fn devices() -> (Devices, ConsoleOutput) {
        let (input, output) = console().unwrap();
        (Devices::new(input), output)
    }

    #[test]
    fn string_instruction_prints_all_its_bytes() {
        let (mut devices, output) = devices();
        assert!(matches!(devices.write(PORT_SERIAL, b"ab\n"), Access::Done));
        assert_eq!(output.text(), "ab\n");
        let mut status = [0];
        assert!(matches!(devices.read(PORT_SERIAL + 5, &mut status), Access::Done));
        assert_ne!(status[0] & 0x20, 0, "ready for the next byte");
    }

    #[test]
    fn exit_register_takes_32_bits_and_nothing_else() {
        let (mut devices, _) = devices();
        let status = devices.write(PORT_EXIT, &0x201_u32.to_le_bytes());
        assert!(matches!(status, Access::Exit(0x201)));
        for len in [0, 1, 2, 3, 5, 8, 4096] {
            assert!(matches!(devices.write(PORT_EXIT, &vec![0; len]), Access::Nobody), "{len}");
        }
    }

    #[test]
    fn nobody_is_anywhere_else() {
        let (mut devices, _) = devices();
        for port in [0, PORT_SERIAL - 1, PORT_SERIAL + 8, PORT_NOBODY, u16::MAX] {
            assert!(matches!(devices.write(port, &[0]), Access::Nobody), "{port:#x}");
            assert!(matches!(devices.read(port, &mut [0]), Access::Nobody), "{port:#x}");
        }
    }
}
