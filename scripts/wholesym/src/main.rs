//! Looks addresses up with wholesym, the library of samply and of the Firefox Profiler's
//! tools, as a client of one server:
//!
//!     wholesym URL CACHE windows|breakpad NAME DEBUGID -- RVA...
use std::str::FromStr;
use wholesym::debugid::DebugId;
use wholesym::{CodeId, LibraryInfo, LookupAddress, SymbolManager, SymbolManagerConfig};
#[tokio::main]
async fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (url, cache, kind, name, id) = (a[1].clone(), a[2].clone(), a[3].as_str(), a[4].clone(), a[5].clone());
    let mut c = SymbolManagerConfig::new();
    c = match kind {
        "breakpad" => c.breakpad_symbols_server(url, format!("{cache}/bp")),
        _ => c.windows_symbols_server(url, format!("{cache}/win")),
    };
    let mut m = SymbolManager::with_config(c);
    let split = a.iter().position(|s| s == "--").unwrap();
    let code = if split > 6 { CodeId::from_str(&a[6]).ok() } else { None };
    let info = LibraryInfo { debug_name: Some(name.clone()), debug_id: Some(DebugId::from_breakpad(&id).unwrap()), name: Some(name.clone()), code_id: code, ..Default::default() };
    match { m.add_known_library(info.clone()); m.load_symbol_map(&name, DebugId::from_breakpad(&id).unwrap()).await } {
        Err(e) => { println!("FAILED {e}"); std::process::exit(1) }
        Ok(map) => for s in &a[split+1..] {
            let rva = u32::from_str_radix(s.trim_start_matches("0x"), 16).unwrap();
            match map.lookup(LookupAddress::Relative(rva)).await {
                None => println!("{s} ?"),
                Some(i) => {
                    print!("{s} {}", i.symbol.name);
                    if let Some(f) = i.frames.as_ref().and_then(|f| f.first()) {
                        print!(" {} {}", f.file_path.as_ref().map(|p| p.raw_path().to_string()).unwrap_or_default(), f.line_number.unwrap_or(0));
                    }
                    println!();
                }
            }
        }
    }
}
