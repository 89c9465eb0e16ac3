//! Users and their passwords (RFC 7617), against bcrypt hashes. A hash takes a tenth of a second of CPU time: a password that was right
//! once is remembered, and of the others only one is hashed at a time, and a few a second.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bcrypt::HashParts;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use subtle::ConstantTimeEq;

use super::response::text;

/// A higher cost takes longer than half a second a request.
const MAX_COST: u32 = 12;

/// Between two passwords that are hashed.
const HASH_INTERVAL: Duration = Duration::from_millis(500);

/// Without users everybody is admitted.
#[derive(Default)]
pub struct Users {
    hashes: Arc<BTreeMap<String, String>>,
    checks: Mutex<Checks>,
}

#[derive(Default)]
struct Checks {
    /// User and password that were right, at most one of each user
    right: BTreeMap<String, String>,
    last_hash: Option<Instant>,
}

/// How a request is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Granted,
    Denied,
    /// Another password was hashed too recently.
    TooSoon,
}

impl Users {
    /// The error says which hash cannot be used.
    pub fn new(hashes: BTreeMap<String, String>) -> Result<Users, String> {
        for (user, hash) in &hashes {
            let parts = HashParts::from_str(hash).map_err(|_| format!("the password of {user} is no bcrypt hash"))?;
            if parts.get_cost() > MAX_COST {
                let cost = parts.get_cost();
                return Err(format!("the bcrypt cost of {user} is {cost}, at most {MAX_COST} is allowed"));
            }
        }
        Ok(Users { hashes: Arc::new(hashes), checks: Mutex::default() })
    }

    /// The answer to a request without the right user and password; `None`: it may be answered.
    pub async fn refusal(&self, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
        if self.hashes.is_empty() {
            return None;
        }
        let (status, words, name, value) = match self.admission(headers, Instant::now()).await {
            Admission::Granted => return None,
            Admission::Denied => {
                (StatusCode::UNAUTHORIZED, "a user and a password are needed\n", WWW_AUTHENTICATE, "Basic realm=\"stalltop\"")
            }
            Admission::TooSoon => (StatusCode::TOO_MANY_REQUESTS, "too many passwords: try again\n", RETRY_AFTER, "1"),
        };
        let mut response = text(status, words);
        response.headers_mut().insert(name, HeaderValue::from_static(value));
        Some(response)
    }

    /// `now`: when the request came.
    async fn admission(&self, headers: &HeaderMap, now: Instant) -> Admission {
        let Some((user, password)) = credentials(headers) else { return Admission::Denied };
        {
            let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
            if checks.right.get(&user).is_some_and(|right| bool::from(right.as_bytes().ct_eq(password.as_bytes()))) {
                return Admission::Granted;
            }
            if checks.last_hash.is_some_and(|last| now.saturating_duration_since(last) < HASH_INTERVAL) {
                return Admission::TooSoon;
            }
            checks.last_hash = Some(now);
        }
        let (hashes, name, word) = (Arc::clone(&self.hashes), user.clone(), password.clone());
        // An unknown user takes as long as a wrong password.
        let is_right = tokio::task::spawn_blocking(move || match hashes.get(&name) {
            Some(hash) => bcrypt::verify(&word, hash).unwrap_or(false),
            None => {
                let _ = hashes.values().next().map(|hash| bcrypt::verify(&word, hash));
                false
            }
        });
        if !is_right.await.unwrap_or(false) {
            return Admission::Denied;
        }
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).right.insert(user, password);
        Admission::Granted
    }
}

/// User and password of the header Authorization.
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(user: &str, password: &str) -> HeaderMap {
        let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&value).unwrap())])
    }

    fn users() -> Users {
        Users::new(BTreeMap::from([("prometheus".to_owned(), bcrypt::hash("secret", 4).unwrap())])).unwrap()
    }

    #[test]
    fn only_the_right_password_is_admitted() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (users, mut now) = (users(), Instant::now());
            assert_eq!(users.admission(&HeaderMap::new(), now).await, Admission::Denied);
            let attempts = [
                ("prometheus", "wrong", Admission::Denied),
                ("prometheus", "", Admission::Denied),
                ("root", "secret", Admission::Denied),
                ("", "", Admission::Denied),
                ("prometheus", "secret", Admission::Granted),
                ("prometheus", "secret2", Admission::Denied),
            ];
            for (user, password, admission) in attempts {
                now += HASH_INTERVAL;
                assert_eq!(users.admission(&headers(user, password), now).await, admission, "{user}:{password}");
            }
            assert!(Users::default().refusal(&HeaderMap::new()).await.is_none(), "without users");
        });
    }

    #[test]
    fn wrong_passwords_are_not_hashed_without_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (users, now) = (users(), Instant::now());
            assert_eq!(users.admission(&headers("prometheus", "secret"), now).await, Admission::Granted);
            assert_eq!(users.admission(&headers("prometheus", "guess"), now).await, Admission::TooSoon);
            assert_eq!(users.admission(&headers("prometheus", "secret"), now).await, Admission::Granted, "it is remembered");
        });
    }

    #[test]
    fn hashes_are_checked_when_they_are_read() {
        let wrong = |hash: &str| Users::new(BTreeMap::from([("a".to_owned(), hash.to_owned())])).err();
        assert_eq!(wrong("secret").unwrap(), "the password of a is no bcrypt hash");
        let expensive = bcrypt::hash("secret", 4).unwrap().replace("$04$", "$31$");
        assert_eq!(wrong(&expensive).unwrap(), "the bcrypt cost of a is 31, at most 12 is allowed");
    }
}
