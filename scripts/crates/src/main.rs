//! Measures the crates blazesym and addr2line on an ELF file with DWARF:
//!
//!     crates blazesym|addr2line FILE < ADDRESSES
//!
//! The addresses are those of the file. They are looked up a thousand at a time, with inlined calls,
//! file names and demangled names. All of them are looked up once before anything is measured. The
//! output is how many of them have a line, how many are looked up in a second of processor time, and
//! how many of the first 5,000, again and again.
use std::error::Error;
use std::io::BufRead;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A look-up of some addresses, which returns how many have a line.
type Lookup<'a> = Box<dyn Fn(&[u64]) -> Result<usize> + 'a>;

fn main() -> Result<()> {
    let usage = "crates blazesym|addr2line FILE < ADDRESSES";
    let crate_name = std::env::args().nth(1).ok_or(usage)?;
    let path = std::env::args().nth(2).ok_or(usage)?;
    let mut addresses = Vec::new();
    for text in std::io::stdin().lock().lines() {
        addresses.push(u64::from_str_radix(text?.trim_start_matches("0x"), 16)?);
    }
    let lookup: Lookup = match crate_name.as_str() {
        "blazesym" => blazesym(path),
        "addr2line" => addr2line(path)?,
        _ => return Err(usage.into()),
    };
    let mut lines = 0;
    for part in addresses.chunks(1000) {
        lines += lookup(part)?;
    }
    let anywhere = rate(&lookup, &addresses, 1)?;
    let hot = rate(&lookup, &addresses[..addresses.len().min(5000)], 10)?;
    println!("{lines} {anywhere:.0} {hot:.0}");
    Ok(())
}

/// Returns how many addresses are looked up in a second of processor time.
fn rate(lookup: &Lookup, addresses: &[u64], times: usize) -> Result<f64> {
    let before = processor_time();
    for _ in 0..times {
        for part in addresses.chunks(1000) {
            std::hint::black_box(lookup(part)?);
        }
    }
    Ok((times * addresses.len()) as f64 / (processor_time() - before))
}

fn processor_time() -> f64 {
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(u.ru_utime) + seconds(u.ru_stime)
}

fn blazesym(path: String) -> Lookup<'static> {
    use blazesym::symbolize::source::{Elf, Source};
    use blazesym::symbolize::{Input, Symbolized, Symbolizer};
    let symbolizer = Symbolizer::builder().enable_code_info(true).enable_inlined_fns(true).enable_demangling(true).build();
    let source = Source::Elf(Elf::new(path));
    Box::new(move |addresses| {
        let mut lines = 0;
        for answer in symbolizer.symbolize(&source, Input::VirtOffset(addresses))? {
            if let Symbolized::Sym(sym) = answer {
                lines += usize::from(sym.code_info.as_ref().is_some_and(|c| c.line.is_some()));
                std::hint::black_box(&sym);
            }
        }
        Ok(lines)
    })
}

fn addr2line(path: String) -> Result<Lookup<'static>> {
    let loader = addr2line::Loader::new(path).map_err(|e| e.to_string())?;
    Ok(Box::new(move |addresses| {
        let mut lines = 0;
        for &address in addresses {
            let mut found = false;
            let mut frames = loader.find_frames(address).map_err(|e| e.to_string())?;
            while let Some(frame) = frames.next()? {
                if let Some(name) = &frame.function {
                    std::hint::black_box(name.demangle()?);
                }
                found |= frame.location.as_ref().is_some_and(|l| l.line.is_some());
                std::hint::black_box(&frame.location);
            }
            lines += usize::from(found);
        }
        Ok(lines)
    }))
}
