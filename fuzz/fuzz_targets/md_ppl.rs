#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trimtab_fuzz::read_md_ppl(bytes));
