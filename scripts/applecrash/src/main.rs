//! Prints a crash report of Apple's systems, in the text form, as the parser of Symbolicator reads it:
//!
//!     applecrash < REPORT
use apple_crash_report_parser::AppleCrashReport;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let report = AppleCrashReport::from_reader(std::io::stdin())?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
