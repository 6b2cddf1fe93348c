//! Memory for requests to members, used again.

use std::io;

use trimtab_block::DirectBuffer;

/// Bytes of the smallest buffer; each class is twice as large as the one before.
const LEAST: usize = 4096;
/// Buffers that are kept of each class.
const KEPT: usize = 64;

/// Buffers that are not in use, by class.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Vec<Vec<DirectBuffer>>);

impl Buffers {
    /// A buffer for so many bytes. Its content is not defined.
    pub(crate) fn take(&mut self, bytes: usize) -> io::Result<DirectBuffer> {
        let size = bytes.next_power_of_two().max(LEAST);
        match self.class(size).pop() {
            Some(buffer) => Ok(buffer),
            None => DirectBuffer::new(size),
        }
    }

    pub(crate) fn give(&mut self, buffer: DirectBuffer) {
        let class = self.class(buffer.bytes());
        if class.len() < KEPT {
            class.push(buffer);
        }
    }

    fn class(&mut self, size: usize) -> &mut Vec<DirectBuffer> {
        let class = (size / LEAST).ilog2() as usize;
        if class >= self.0.len() {
            self.0.resize_with(class + 1, Vec::new);
        }
        &mut self.0[class]
    }
}
