//! The native command: judges plugin configurations and reads responses with the very code that the filter runs.

mod hint;

use retry_budget::config::{self, Config};
use std::io::{self, Read, Write};
use std::process::ExitCode;

const USAGE: &str = "\
Checks and describes plugin configurations of the Retry Budget filter, and shows how it reads a response.

Usage:
  retry-budget check FILE   print the effective policy of a configuration (- reads standard input),
                            or every error in it, and then exit with 1
  retry-budget schema       print the JSON Schema of a configuration
  retry-budget hint --status N [--grpc-status N] [--now EPOCH_SECONDS] ['NAME: VALUE' ...]
                            print what is read from a response with these headers, as JSON: {\"delay_ms\":N},
                            {\"ignored\":\"why\"} or {\"never\":\"why\"}; with --grpc-status alone the status is 200
  retry-budget --help       print this
  retry-budget --version    print the version
";

/// What ended the command: a configuration (or file) that is refused, or a call that nobody can understand.
enum Failure {
    Refused(String),
    Usage(String),
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap_or_default()).collect();
    let outcome = match (words.as_slice(), arguments.get(1)) {
        (["check", word], Some(file)) if !word.starts_with("--") => check(file),
        (["check", ..], _) => Err(Failure::Usage("check takes one FILE".to_string())),
        (["schema"], _) => Ok(config::schema()),
        (["schema", ..], _) => Err(Failure::Usage("schema takes no arguments".to_string())),
        (["hint", ..], _) => hint::run(arguments.get(1..).unwrap_or_default()).map_err(Failure::Usage),
        (["--help" | "-h" | "help", ..], _) => Ok(USAGE.trim_end().to_string()),
        (["--version" | "-V"], _) => Ok(concat!("retry-budget ", env!("CARGO_PKG_VERSION")).to_string()),
        ([], _) => Err(Failure::Usage("what shall be done?".to_string())),
        ([..], _) => Err(Failure::Usage("there is no such command".to_string())),
    };
    // A reader that has seen enough and closed the pipe is no failure; println would panic.
    match outcome {
        Ok(text) => {
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(Failure::Refused(text)) => {
            let _ = writeln!(io::stderr(), "{text}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(text)) => {
            let _ = write!(io::stderr(), "retry-budget: {text}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn check(file: &std::ffi::OsStr) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match file.to_str() {
        Some("-") => io::stdin().read_to_end(&mut bytes),
        _ => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::Refused(format!("{} cannot be read: {error}", file.to_string_lossy())))?;
    let config = Config::parse(&bytes).map_err(|errors| Failure::Refused(errors.to_string()))?;
    Ok(config.describe_pretty())
}
