//! Looks addresses up with symbolic, the library of Symbolicator, in one debug file:
//!
//!     symbolic FILE < ADDRESSES
//!
//! It makes the SymCache of the file and prints, for each address, a line for each frame: the
//! address, the name of the function, the file and the line, separated by tabs. The last line has
//! the number of bytes of the unwind rules.
use std::io::{BufRead, Cursor};
use symbolic::cfi::CfiCache;
use symbolic::common::ByteView;
use symbolic::debuginfo::Archive;
use symbolic::symcache::{SymCache, SymCacheConverter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("symbolic FILE < ADDRESSES")?;
    let view = ByteView::open(path)?;
    let archive = Archive::parse(&view)?;
    let object = archive.objects().next().ok_or("the file has no object")??;
    let mut converter = SymCacheConverter::new();
    converter.process_object(&object)?;
    let mut bytes = Vec::new();
    converter.serialize(&mut Cursor::new(&mut bytes))?;
    let cache = SymCache::parse(&bytes)?;
    for text in std::io::stdin().lock().lines() {
        let text = text?;
        let address = u64::from_str_radix(text.trim_start_matches("0x"), 16)?;
        let mut frames = 0;
        for l in cache.lookup(address) {
            frames += 1;
            let file = l.file().map(|f| f.full_path()).unwrap_or_default();
            println!("{text}\t{}\t{file}\t{}", l.function().name(), l.line());
        }
        if frames == 0 {
            println!("{text}\t?\t\t0");
        }
    }
    println!("unwind\t{}", CfiCache::from_object(&object)?.as_slice().len());
    Ok(())
}
