//! A throw-away PostgreSQL cluster: created, started, killed, restarted and removed by a test.
//!
//! The server listens on a unix socket in its own folder and on loopback TCP on a free port. It
//! keeps `fsync` and every other promise on unless a test asks for the contrary. Every operation
//! blocks; they may be called from async tests too, where they block that test alone.

mod home;
mod postmaster;
mod servers;

use crate::database;
use crate::error::{Error, Result};
use postmaster::Postmaster;
use std::path::{Path, PathBuf};

/// The superuser of every test cluster, and its password. The password is never checked; it is in
/// the addresses so that a test can look for it where it must not appear.
const USER: &str = "samekey";
const PASSWORD: &str = "cluster-password";

/// How many ports are tried before giving up; each try loses only against a program that took the
/// same port within the same instant.
const PORT_TRIES_MAX: u32 = 5;

/// How a cluster differs from the usual: nothing by default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
}

impl Options {
    /// The usual cluster: every durability setting on, 100 connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a server setting such as `("fsync", "off")`; the last one of a name wins.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// One PostgreSQL server with its folder. Dropping it stops the server and removes the folder.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
    major: u32,
    account: Option<home::Account>,
    settings: Vec<(String, String)>,
    port: u16,
    postmaster: Option<Postmaster>,
}

impl Cluster {
    /// Creates a cluster and starts its server; returns when it answers a query.
    ///
    /// # Errors
    /// `Missing` when there is no server of a supported version on this machine or no account to
    /// run it as, `NotStarted` or `TimedOut` with the end of the server's log otherwise.
    pub fn start(options: Options) -> Result<Self> {
        let server = servers::find()?;
        let account = home::account()?;
        let folder = home::create(account)?;
        let mut cluster = Self {
            bin: server.bin,
            folder,
            major: server.major,
            account,
            settings: options.settings,
            port: 0,
            postmaster: None,
        };
        // From here on a failure drops `cluster`, which removes the folder.
        if account.is_some() && !home::reachable(&cluster.bin) {
            cluster.bin = home::copy_server(&server.root, &cluster.bin, &cluster.folder)?;
        }
        postmaster::init(&cluster.bin, &cluster.folder, cluster.account, USER)?;
        let mut tries = 1;
        loop {
            cluster.port = postmaster::free_port()?;
            match cluster.launch() {
                Ok(()) => return Ok(cluster),
                Err(_) if tries < PORT_TRIES_MAX && postmaster::port_was_taken(&cluster.folder) => {
                    tries += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The address of a database in this cluster over loopback TCP, whether it exists or not.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// The address of the database that always exists.
    pub fn admin_url(&self) -> String {
        self.url("postgres")
    }

    /// The address of a database in this cluster over its unix socket.
    pub fn socket_url(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{USER}:{PASSWORD}@{folder}:{}/{database}", self.port)
    }

    /// The TCP port on 127.0.0.1; it stays the same across restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's major version, such as 15.
    pub fn major_version(&self) -> u32 {
        self.major
    }

    /// The folder with the server's log, socket and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates an empty database and returns its address.
    ///
    /// # Errors
    /// `Database` when the server refuses it or does not run.
    pub fn create_database(&self, name: &str) -> Result<String> {
        self.execute(&format!("create database {}", database::quoted(name)))?;
        Ok(self.url(name))
    }

    /// Runs statements in the database that always exists, as the superuser.
    ///
    /// # Errors
    /// `Database` when the server refuses one or does not run.
    pub fn execute(&self, statements: &str) -> Result<()> {
        database::execute(&self.admin_url(), statements)
    }

    /// Kills the server and all its children with SIGKILL, as a power cut would end them, and
    /// returns when they are gone. What was committed is found again by [`Cluster::restart`].
    ///
    /// # Errors
    /// `TimedOut` when a process outlives its SIGKILL; `System` when a signal is refused.
    pub fn kill_immediately(&mut self) -> Result<()> {
        match self.postmaster.take() {
            Some(postmaster) => postmaster.kill(),
            None => Ok(()),
        }
    }

    /// Freezes the server and all its children with SIGSTOP: connections stay open and nothing
    /// answers. New connections wait in the kernel's queue.
    ///
    /// # Errors
    /// `System` when a signal is refused.
    pub fn freeze(&self) -> Result<()> {
        self.postmaster.as_ref().map_or(Ok(()), Postmaster::freeze)
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// `System` when a signal is refused.
    pub fn thaw(&self) -> Result<()> {
        self.postmaster.as_ref().map_or(Ok(()), Postmaster::thaw)
    }

    /// Starts the server again on the same port and data, stopping it first when it runs; returns
    /// when it answers a query, so crash recovery is then over.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch()
    }

    /// Stops the server in an orderly way: open connections are cut, nothing committed is lost.
    ///
    /// # Errors
    /// `TimedOut` when it does not end, after which it has been killed.
    pub fn stop(&mut self) -> Result<()> {
        match self.postmaster.take() {
            Some(postmaster) => postmaster.stop(),
            None => Ok(()),
        }
    }

    fn launch(&mut self) -> Result<()> {
        let url = self.admin_url();
        let postmaster = Postmaster::launch(
            &self.bin,
            &self.folder,
            self.account,
            self.port,
            &self.settings,
            &url,
        )?;
        self.postmaster = Some(postmaster);
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The data goes away with it, so there is no reason to wait for an orderly end.
        let ended = self.kill_immediately();
        let removed = std::fs::remove_dir_all(&self.folder)
            .map_err(|cause| Error::system(format!("remove {}", self.folder.display()), cause));
        for failure in [ended, removed].into_iter().filter_map(Result::err) {
            eprintln!("test cluster: {failure}");
        }
    }
}
