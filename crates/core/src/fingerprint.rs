//! Are two requests the same request? A fingerprint says so without keeping the request.
//!
//! A record keeps the fingerprint of its first request and the version of the algorithm that made it;
//! a retry is compared with the record's own version. So every algorithm that was ever shipped stays
//! here, and none is ever changed: see [`V1`], whose module is frozen.
//!
//! A false mismatch costs its caller a refusal. A false match answers one payment with another one.
//! Wherever a rule could go either way, it goes towards the mismatch.

use std::sync::Arc;

pub mod json;
mod media;
mod v1;

pub use v1::V1;

/// What of a request takes part in its fingerprint, as it came over the wire.
///
/// It borrows other people's data, so it has no `Debug`.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method, as it was sent: methods are case-sensitive.
    pub method: &'a str,
    /// The path, byte by byte, without decoding: `/orders` and `/%6frders` differ.
    pub path: &'a [u8],
    /// The query without its `?`. No query and an empty one (`/orders?`) differ.
    pub query: Option<&'a [u8]>,
    /// The value of `Content-Type`. See [`BodyForm::Json`] for what counts as JSON. Compared are the
    /// lower-cased essence and the parameters as written, in their order, without `charset=utf-8`.
    pub content_type: Option<&'a [u8]>,
    /// The value of `Content-Encoding`. Its case does not count, and `identity` is the same as none.
    pub content_encoding: Option<&'a [u8]>,
    /// Those of the route's semantic headers that the request has: a name and a value for every line,
    /// in the order of the request. The case of names and the order between names do not count; the
    /// order of lines with one name does. An absent header and an empty one differ.
    pub semantic: &'a [(&'a str, &'a [u8])],
    /// The body, whole, as it was sent.
    pub body: &'a [u8],
}

/// How a route wants bodies to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// Bodies that are JSON by their media type are compared in the canonical form of [`json`], so
    /// member order, white space and string escapes do not count. JSON by media type means:
    /// `application/json` or a type that ends in `+json`, without an encoding, and without a charset
    /// other than UTF-8. A body that has no canonical form is compared byte by byte, as are all
    /// other bodies.
    Json,
    /// Every body is compared byte by byte.
    Raw,
}

/// The fingerprint of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    /// SHA-256 over everything in the request.
    pub request_sha: [u8; 32],
    /// SHA-256 over everything but the body, for routes that forgive another body only.
    pub frame_sha: [u8; 32],
}

/// The number of an algorithm, kept with every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u16);

/// One way to make a fingerprint. Equal versions must mean equal digests, for ever.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The number under which records remember it.
    pub version: Version,
    /// Makes the fingerprint.
    pub digest: fn(&Request<'_>, BodyForm) -> Digest,
}

/// Every algorithm that a record may have been made with, and the one for new records. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct Algorithms {
    current: Algorithm,
    earlier: Arc<[Algorithm]>,
}

impl Algorithms {
    /// The algorithms of this release: [`V1`] is the current one and the only one.
    #[must_use]
    pub fn shipped() -> Self {
        Self { current: V1, earlier: Arc::new([]) }
    }

    /// A table of its own, so that a test can pretend that a later version exists.
    ///
    /// # Errors
    /// Two algorithms with one version: a record could not say which of them made it.
    pub fn new(
        current: Algorithm,
        earlier: impl IntoIterator<Item = Algorithm>,
    ) -> Result<Self, RepeatedVersion> {
        let earlier: Arc<[Algorithm]> = earlier.into_iter().collect();
        let mut versions: Vec<Version> = earlier.iter().map(|one| one.version).collect();
        versions.push(current.version);
        versions.sort_unstable();
        for pair in versions.windows(2) {
            if let [one, other] = pair
                && one == other
            {
                return Err(RepeatedVersion(*one));
            }
        }
        Ok(Self { current, earlier })
    }

    /// The algorithm for new records.
    #[must_use]
    pub fn current(&self) -> Algorithm {
        self.current
    }

    /// The algorithm that a record was made with. `None` means that the record comes from a later
    /// release, so nobody here can compare it: never treat that as a match.
    #[must_use]
    pub fn get(&self, version: Version) -> Option<Algorithm> {
        if self.current.version == version {
            return Some(self.current);
        }
        self.earlier.iter().find(|one| one.version == version).copied()
    }
}

/// Two algorithms in one table claim the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two fingerprint algorithms have version {}; give every algorithm its own", .0.0)]
pub struct RepeatedVersion(pub Version);

#[cfg(test)]
mod tests {
    use super::*;

    fn pretended(version: u16) -> Algorithm {
        fn digest(_: &Request<'_>, _: BodyForm) -> Digest {
            Digest { request_sha: [7; 32], frame_sha: [7; 32] }
        }
        Algorithm { version: Version(version), digest }
    }

    #[test]
    fn t42_a_record_of_version_1_is_compared_with_version_1_after_an_upgrade() {
        let upgraded = Algorithms::new(pretended(2), [V1]).unwrap();
        assert_eq!(upgraded.current().version, Version(2));
        assert_eq!(upgraded.get(Version(1)).unwrap().version, Version(1));
        assert_eq!(upgraded.get(Version(2)).unwrap().version, Version(2));
        assert!(upgraded.get(Version(3)).is_none());
    }

    #[test]
    fn the_shipped_table_has_version_1() {
        let shipped = Algorithms::shipped();
        assert_eq!(shipped.current().version, Version(1));
        assert!(shipped.get(Version(1)).is_some());
        assert!(shipped.get(Version(0)).is_none());
    }

    #[test]
    fn one_version_is_one_algorithm() {
        let fault = Algorithms::new(pretended(1), [V1]).unwrap_err();
        assert_eq!(fault, RepeatedVersion(Version(1)));
        assert!(fault.to_string().contains("version 1;"), "{fault}");
        assert!(Algorithms::new(pretended(3), [pretended(2), V1, pretended(2)]).is_err());
    }
}
