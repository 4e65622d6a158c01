//! `retry-budget hint`: what the filter reads from a response, as JSON.

use retry_budget::policy::outcome::{Retriable, Status};
use retry_budget::policy::retry_after::{self, Hint, Ignored, Reading};
use serde_json::json;
use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};

/// A status line has three digits.
const HTTP_STATUSES: std::ops::RangeInclusive<u64> = 100..=999;

/// The response that the arguments describe.
#[derive(Default)]
struct Response {
    http: Option<u16>,
    grpc: Option<u8>,
    /// Of the proxy's clock, in seconds since the epoch.
    now: Option<u64>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What is printed, or what is wrong with the call.
pub fn run(arguments: &[OsString]) -> Result<String, String> {
    let response = Response::from_arguments(arguments)?;
    let now_ms = match response.now {
        Some(seconds) => seconds.saturating_mul(1000),
        None => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
    };
    let fields = response.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
    // The statuses of a configuration without `retriable`.
    let reading = retry_after::read(response.status()?, &Retriable::default(), now_ms, fields);
    Ok(shown(reading).to_string())
}

fn shown(reading: Reading) -> serde_json::Value {
    match reading.hint {
        Hint::Delay(millis) => json!({ "delay_ms": millis }),
        Hint::Never(never) => json!({ "never": never.sentence() }),
        Hint::Ignored(Ignored::Malformed) => {
            let headers: Vec<&str> = reading.malformed.iter().map(|header| header.name()).collect();
            json!({ "ignored": format!("{} {}", Ignored::Malformed.sentence(), headers.join(", ")) })
        }
        Hint::Ignored(ignored) => json!({ "ignored": ignored.sentence() }),
    }
}

impl Response {
    fn from_arguments(arguments: &[OsString]) -> Result<Self, String> {
        let mut response = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            let (option, mut value) = match text.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (text, None),
            };
            if option.starts_with("--") && value.is_none() {
                value = arguments.next().and_then(|next| next.to_str());
            }
            let number = |allowed: std::ops::RangeInclusive<u64>| {
                let number = value.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                number
                    .and_then(|text| text.parse().ok())
                    .filter(|number| allowed.contains(number))
                    .ok_or_else(|| format!("{option} takes a number from {} to {}", allowed.start(), allowed.end()))
            };
            match option {
                "--status" => response.http = u16::try_from(number(HTTP_STATUSES)?).ok(),
                "--grpc-status" => response.grpc = u8::try_from(number(0..=u64::from(u8::MAX))?).ok(),
                "--now" => response.now = Some(number(0..=u64::MAX)?),
                _ if text.starts_with("--") => return Err(format!("hint has no option {option}")),
                _ => response.fields.push(field(argument.as_encoded_bytes())?),
            }
        }
        Ok(response)
    }

    fn status(&self) -> Result<Status, String> {
        // A trailers-only response of gRPC comes with 200.
        let http = self.http.or(self.grpc.map(|_| 200)).ok_or("hint takes --status or --grpc-status")?;
        Ok(Status { http, grpc: self.grpc })
    }
}

/// `name: value`, the name in lower case, every byte of the value as it is.
fn field(argument: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let colon = argument.iter().position(|byte| *byte == b':');
    let (name, value) = colon.and_then(|at| argument.split_at_checked(at)).unwrap_or((b"", b""));
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)) {
        return Err(format!("a header is written as 'name: value', not as '{}'", argument.escape_ascii()));
    }
    Ok((name.to_ascii_lowercase(), value.get(1..).unwrap_or_default().to_vec()))
}
