//! What every measurement has around it: the way to end it and the cores it runs on.

use crate::affinity::Pin;
use crate::error::BenchError;
use crate::generator::{Fleet, GroupSpec, Load, WorkerCommand};
use crate::interrupt::Interrupt;
use std::net::SocketAddr;

/// The surroundings of a measurement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rig {
    pub(crate) interrupt: Interrupt,
    pub(crate) pin: Pin,
}

impl Rig {
    /// Watches for Ctrl-C and moves this thread to the generator's cores.
    pub(crate) fn set_up(pin: &Pin) -> Result<Self, BenchError> {
        let rig = Rig { interrupt: Interrupt::watch()?, pin: pin.clone() };
        pin.enter_generator()?;
        Ok(rig)
    }

    /// Opens the connections of these groups, on so many threads in so many processes.
    pub(crate) fn fleet(
        &self,
        address: SocketAddr,
        groups: Vec<GroupSpec>,
        (threads, processes): (u32, u32),
        seed: u64,
    ) -> Result<Fleet, BenchError> {
        let load = Load { address, groups, threads, processes, seed };
        Fleet::open(load, &WorkerCommand::default(), &self.interrupt)
    }
}
