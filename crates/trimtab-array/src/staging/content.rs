//! The bytes of what is staged.

use super::Piece;

/// The memory of a [`Staging`](super::Staging), by record, for a driver with content.
#[derive(Debug, Default)]
pub struct StagedContent {
    records: Vec<Vec<u8>>,
}

impl StagedContent {
    /// Keeps a write's data: [`StagingAction::Store`](super::StagingAction::Store).
    pub fn store(&mut self, record: u32, data: &[u8]) {
        let place = record as usize;
        if place >= self.records.len() {
            self.records.resize_with(place + 1, Vec::new);
        }
        self.records[place].clear();
        self.records[place].extend_from_slice(data);
    }

    /// Forgets it: [`StagingAction::Free`](super::StagingAction::Free).
    pub fn free(&mut self, record: u32) {
        if let Some(data) = self.records.get_mut(record as usize) {
            *data = Vec::new();
        }
    }

    /// Copies pieces to their places in a buffer, which begins at this byte of the member: what a
    /// read returns, over what the drive has returned, or what is written to the drive.
    pub fn copy(&self, pieces: &[Piece], offset: u64, buffer: &mut [u8]) {
        for piece in pieces {
            let from = piece.from as usize..(piece.from + piece.length) as usize;
            let to = (piece.offset - offset) as usize;
            let to = to..to + piece.length as usize;
            buffer[to].copy_from_slice(&self.records[piece.record as usize][from]);
        }
    }
}
