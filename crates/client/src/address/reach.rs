//! Which network addresses a counterparty may have.

use super::{Base, Scheme};
use crate::error::Error;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is no public address, IPv4: this host, private and shared networks, loopback, link-local with its
/// metadata services, documentation, benchmarks, multicast, reserved (the special-purpose registry of IANA).
const NOT_PUBLIC_V4: [(Ipv4Addr, u8); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // A metadata service with an address that looks public.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Public IPv6 lies in 2000::/3; these parts of it are special.
const NOT_PUBLIC_V6: [(Ipv6Addr, u8); 3] = [
    // Protocol assignments, Teredo with its hidden IPv4 addresses among them.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Which addresses may be connected to. [`Reach::PUBLIC`] unless a configuration says more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    also: Vec<IpNet>,
    plain_http: bool,
}

impl Reach {
    /// Public addresses only, over TLS only.
    pub const PUBLIC: Reach = Reach { also: Vec::new(), plain_http: false };

    /// These networks as well, although they are private.
    #[must_use]
    pub fn and(mut self, networks: impl IntoIterator<Item = IpNet>) -> Reach {
        self.also.extend(networks);
        self
    }

    /// Loopback as well: for tests and for a proxy on the same host.
    #[must_use]
    pub fn and_loopback(self) -> Reach {
        let loopback = [
            IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
            IpNet::new_assert(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
        ];
        self.and(loopback)
    }

    /// Without TLS, also to other hosts: everybody on the way can read and change what is sent.
    #[must_use]
    pub fn and_plain_http(mut self) -> Reach {
        self.plain_http = true;
        self
    }

    /// Whether this address may be connected to over this scheme.
    pub fn allows(&self, address: IpAddr, scheme: Scheme) -> bool {
        let address = address.to_canonical();
        let protected = match scheme {
            Scheme::Https => true,
            Scheme::Http => self.plain_http || address.is_loopback(),
        };
        protected
            && (is_public(address) || self.also.iter().any(|network| network.contains(&address)))
    }

    /// Whether a connection could ever be made to this place: what its name means is looked up when one is made.
    pub(crate) fn takes(&self, base: &Base) -> bool {
        self.check(base).is_ok()
    }

    /// Refuses at start-up what no connection could ever be made to.
    ///
    /// # Errors
    /// A literal address that is not allowed, or plain HTTP to another host.
    pub fn check(&self, base: &Base) -> Result<(), Error> {
        let host = base.host();
        if base.scheme() == Scheme::Http && !self.plain_http {
            let is_loopback = base.literal().map_or(host == "localhost", |ip| ip.is_loopback());
            if !is_loopback {
                return Err(Error::config(format!(
                    "base_url: http:// to {host} sends keys, credentials and payments unprotected; use https://, or set allow_plain_http = true"
                )));
            }
        }
        // `localhost` is the one name that means the same everywhere.
        let localhost = || (host == "localhost").then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        match base.literal().or_else(localhost) {
            Some(address) if !self.allows(address, base.scheme()) => Err(Error::config(format!(
                "base_url: {address} is no public address; use one, or list its network under allow_networks"
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => !NOT_PUBLIC_V4.iter().any(|(from, bits)| {
            let shift = 32 - u32::from(*bits);
            u32::from(four) >> shift == u32::from(*from) >> shift
        }),
        IpAddr::V6(six) => is_public_v6(six),
    }
}

fn is_public_v6(six: Ipv6Addr) -> bool {
    let within = |(from, bits): &(Ipv6Addr, u8)| {
        let shift = 128 - u32::from(*bits);
        u128::from(six) >> shift == u128::from(*from) >> shift
    };
    let [first, second, third, ..] = six.segments();
    match first {
        // 6to4 and NAT64 lead to the IPv4 address that they carry.
        0x2002 => is_public(IpAddr::V4(carried(second, third))),
        0x64 if second == 0xff9b => {
            let [.., high, low] = six.segments();
            third == 0 && is_public(IpAddr::V4(carried(high, low)))
        }
        0x2000..=0x3fff => !NOT_PUBLIC_V6.iter().any(within),
        _ => false,
    }
}

fn carried(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::{Base, Reach, Scheme};
    use std::net::IpAddr;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn t104_only_public_addresses_may_be_connected_to() {
        for private in [
            "0.0.0.0",
            "10.0.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.8.8.8",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001:0:1::1",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!Reach::PUBLIC.allows(ip(private), Scheme::Https), "{private}");
        }
        for public in [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "168.63.129.17",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "2002:101:101::",
            "::ffff:1.1.1.1",
        ] {
            assert!(Reach::PUBLIC.allows(ip(public), Scheme::Https), "{public}");
            assert!(!Reach::PUBLIC.allows(ip(public), Scheme::Http), "{public} without TLS");
        }
        let loopback = Reach::PUBLIC.and_loopback();
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(loopback.allows(ip(address), Scheme::Http), "{address}");
        }
        assert!(!loopback.allows(ip("169.254.169.254"), Scheme::Http));
        let own = Reach::PUBLIC.and(["10.1.0.0/16".parse().unwrap()]);
        assert!(
            own.allows(ip("10.1.2.3"), Scheme::Https) && !own.allows(ip("10.2.2.3"), Scheme::Https)
        );
        assert!(!own.allows(ip("10.1.2.3"), Scheme::Http));
        assert!(own.and_plain_http().allows(ip("10.1.2.3"), Scheme::Http));
    }

    #[test]
    fn what_can_never_be_reached_is_refused_at_start_up() {
        let check = |reach: Reach, text| reach.check(&Base::parse(text).unwrap());
        for (text, part) in [
            ("http://pay.test", "unprotected"),
            ("http://10.0.0.1", "unprotected"),
            ("http://127.0.0.1", "no public address"),
            ("http://localhost", "no public address"),
            ("https://169.254.169.254", "allow_networks"),
            ("https://[::ffff:10.0.0.1]", "allow_networks"),
        ] {
            let sentence = check(Reach::PUBLIC, text).unwrap_err().to_string();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
        check(Reach::PUBLIC, "https://pay.test").unwrap();
        check(Reach::PUBLIC.and_loopback(), "http://127.0.0.1:8021").unwrap();
        check(Reach::PUBLIC.and_loopback(), "http://localhost:8021").unwrap();
    }
}
