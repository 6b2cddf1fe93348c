//! Data integrity checks, for tests.

use std::collections::BTreeMap;

use super::Ssd;
use super::ops::Queue;
use crate::error::Inconsistency;
use crate::map::Location;
use crate::slab::NONE;

/// The expected location of data. A unit's data is identified by how often the unit has been
/// written; no data is stored.
#[derive(Clone, Debug)]
pub(super) struct Audit {
    /// By user unit: writes so far.
    written: Vec<u32>,
    /// By buffer slot: the version it holds.
    in_slot: Vec<u32>,
    /// By unit of flash.
    in_flash: Vec<u32>,
    /// The versions that each read operation should find, by unit of flash.
    reads: BTreeMap<u32, Vec<(u32, u32)>>,
}

impl Audit {
    /// The operation will read elsewhere.
    pub(super) fn forget(&mut self, op: u32) {
        self.reads.remove(&op);
    }
}

/// Version of an erased unit.
const ERASED: u32 = u32::MAX;

impl Ssd {
    /// From now on checks that every unit read holds its last written version, however often
    /// cleaning has moved it. Multiplies the model's run time and memory.
    ///
    /// # Panics
    /// Later, when a wrong version is read.
    pub fn audit(&mut self) {
        let mut audit = Audit {
            written: vec![0; self.layout.user_units as usize],
            in_slot: Vec::new(),
            in_flash: vec![ERASED; self.layout.units as usize],
            reads: BTreeMap::new(),
        };
        for user in 0..self.layout.user_units {
            if let Location::Flash(unit) = self.map.location(user) {
                audit.in_flash[unit as usize] = 0;
            }
        }
        assert_eq!(self.requests.len(), 0, "an audit begins with an idle drive");
        self.audit = Some(Box::new(audit));
    }

    pub(super) fn audit_write(&mut self, user: u32, slot: u32) {
        let Some(audit) = &mut self.audit else { return };
        let slot = slot as usize;
        if slot >= audit.in_slot.len() {
            audit.in_slot.resize(slot + 1, ERASED);
        }
        audit.written[user as usize] += 1;
        audit.in_slot[slot] = audit.written[user as usize];
    }

    pub(super) fn audit_program(&mut self, slot: u32, unit: u32) {
        let Some(audit) = &mut self.audit else { return };
        assert_eq!(audit.in_flash[unit as usize], ERASED, "unit {unit} was programmed twice");
        audit.in_flash[unit as usize] = audit.in_slot[slot as usize];
    }

    pub(super) fn audit_parity(&mut self, user: u32, unit: u32) {
        let Some(audit) = &mut self.audit else { return };
        assert_eq!(audit.in_flash[unit as usize], ERASED, "unit {unit} was programmed twice");
        audit.written[user as usize] += 1;
        audit.in_flash[unit as usize] = audit.written[user as usize];
    }

    pub(super) fn audit_move(&mut self, from: u32, to: u32) {
        let Some(audit) = &mut self.audit else { return };
        assert_eq!(audit.in_flash[to as usize], ERASED, "unit {to} was programmed twice");
        audit.in_flash[to as usize] = audit.in_flash[from as usize];
    }

    pub(super) fn audit_erase(&mut self, block: u32) {
        let Some(audit) = &mut self.audit else { return };
        let units = self.layout.units_per_block;
        audit.in_flash[(block * units) as usize..][..units as usize].fill(ERASED);
    }

    /// A read has been directed at the current location of its units.
    pub(super) fn audit_sent(&mut self, op: u32) {
        let Some(audit) = &mut self.audit else { return };
        let read = &self.ops[op];
        let expected = (read.user..read.user + read.units).map(|user| {
            let Location::Flash(unit) = self.map.location(user) else {
                panic!("unit {user} is read from flash, and is not there");
            };
            let data = audit.in_flash[unit as usize];
            assert_eq!(data, audit.written[user as usize], "unit {user} holds old data");
            (unit, data)
        });
        let expected = expected.collect();
        audit.reads.insert(op, expected);
    }

    /// The cells are being read.
    pub(super) fn audit_group(&mut self, group: Queue) {
        let mut op = group.head();
        while op != NONE {
            let audit = self.audit.as_mut().expect("auditing is on");
            for (unit, data) in audit.reads.remove(&op).unwrap_or_default() {
                assert_eq!(audit.in_flash[unit as usize], data, "unit {unit} was erased too early");
            }
            op = self.ops[op].next;
        }
    }

    /// Checks the bookkeeping: exactly the mapped units are valid, counts are right, free blocks
    /// are empty.
    ///
    /// # Errors
    /// The first inconsistency found.
    pub fn verify(&self) -> Result<(), Inconsistency> {
        let mut valid = vec![0_u16; self.layout.blocks() as usize];
        for user in 0..self.layout.user_units {
            let Location::Flash(unit) = self.map.location(user) else { continue };
            if self.map.next_valid(unit, unit + 1).is_none() {
                return Err(Inconsistency::InvalidUnit { user, unit });
            }
            if self.map.owner(unit) != user {
                let owner = self.map.owner(unit);
                return Err(Inconsistency::WrongOwner { user, unit, owner });
            }
            valid[self.layout.block_of_unit(unit) as usize] += 1;
        }
        // As many valid bits as mappings, and each mapping has its bit: no bit is left over.
        let bits = self.map.valid_total();
        let mapped: u64 = valid.iter().map(|&n| u64::from(n)).sum();
        if bits != mapped {
            return Err(Inconsistency::ValidUnits { valid: bits, mapped });
        }
        for (block, &valid) in (0..).zip(&valid) {
            if self.map.valid_in(block) != valid {
                let counted = self.map.valid_in(block);
                return Err(Inconsistency::BlockCount { block, valid, counted });
            }
        }
        self.blocks.verify(&self.layout, &self.map)
    }
}
