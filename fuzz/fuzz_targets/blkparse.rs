#![no_main]

trimtab_fuzz::fuzz_format!(Blkparse);
