//! What every measurement has around it: the way to end it and the cores it runs on.

use crate::affinity::Pin;
use crate::error::BenchError;
use crate::generator::{Fleet, Generator, GroupSpec, Load, RunOutcome, Share, Window, WorkerCommand};
use crate::interrupt::Interrupt;
use crate::spinners::Spinners;
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

    /// Connects these groups.
    pub(crate) fn generator(
        &self,
        address: SocketAddr,
        groups: &[GroupSpec],
        seed: u64,
    ) -> Result<Generator, BenchError> {
        Generator::connect(address, groups, Share::whole(seed), &self.interrupt)
    }

    /// Opens the connections of a load, in this process or in several.
    pub(crate) fn fleet(&self, load: Load) -> Result<Fleet, BenchError> {
        Fleet::open(load, &WorkerCommand::default(), &self.interrupt)
    }

    /// Busy threads on the server's cores, until they are dropped.
    pub(crate) fn spinners(&self) -> Result<Spinners, BenchError> {
        self.pin.with_server_cores(Spinners::start)
    }

    /// One run of these groups on connections of their own.
    pub(crate) fn run(
        &self,
        address: SocketAddr,
        groups: &[GroupSpec],
        seed: u64,
        window: &Window,
    ) -> Result<RunOutcome, BenchError> {
        self.generator(address, groups, seed)?.run(window)
    }
}
