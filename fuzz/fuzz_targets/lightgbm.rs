#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| trimtab_fuzz::read_lightgbm(text));
