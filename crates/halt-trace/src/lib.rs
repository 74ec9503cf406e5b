// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod evaluate;
mod event;
mod parse;
mod prefix;
pub mod replay;
pub mod suite;

pub use event::{Change, Direction, Event, Kind, ParamUpdate, Trace, Wakeup};
pub use parse::{Fault, Line, ParseError, lines, parse_line};
