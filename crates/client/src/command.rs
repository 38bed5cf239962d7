//! A command before it is enqueued: what it asks for, and what is drawn for it once.

use crate::error::{Error, Kind};
use samekey_core::delivery::Delivery;
use samekey_core::key::Org;
use samekey_store::OutboundKey;
use samekey_store::outbox::{
    Action, Command, CommandId, Enqueued, NAME_BYTES_MAX, REFERENCE_BYTES_MAX, REQUEST_BYTES_MAX,
};
use std::fmt;
use std::time::Duration;

/// A command that is to be executed once.
#[derive(Clone)]
pub struct NewCommand {
    /// Whose it is.
    pub org: Org,
    /// The name of the destination, as the courier knows it.
    pub destination: String,
    /// What is done, such as `charge`: 1 to 64 bytes.
    pub operation: String,
    /// What it is done for, such as the id of the order: 1 to 255 bytes. A second refund of one order is
    /// another business action and has a reference of its own.
    pub business_ref: String,
    /// Commands with the same order key are sent one after the other, each when the one before it is
    /// finished: 1 to 255 bytes.
    pub order_key: Option<String>,
    /// The request, as the counterparty's own code encodes it: at most 1 MiB. It is sent as it is, every
    /// time.
    pub request: bytes::Bytes,
    /// How long it waits before it is sent for the first time. Its time begins after that.
    pub delay: Duration,
}

impl fmt::Debug for NewCommand {
    /// Requests and references are other people's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewCommand")
            .field("destination", &self.destination)
            .field("operation", &self.operation)
            .field("request_bytes", &self.request.len())
            .finish_non_exhaustive()
    }
}

/// A command with its id and its key, ready to be written with the caller's business row. Both are drawn
/// once, so writing it again after a lost acknowledgement writes the same command.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What is written once.
    pub command: Command,
    /// Where it stands then; its times are offsets, to which the store adds its own now.
    pub delivery: Delivery,
}

/// A command that is in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its id.
    pub id: CommandId,
    /// Whether it is there since now; otherwise the same command was enqueued before.
    pub is_new: bool,
}

/// The longest delay: what is to happen later than in a month belongs into a calendar.
pub const DELAY_MAX: Duration = Duration::from_secs(31 * 24 * 3600);

impl NewCommand {
    /// Checks the command and draws its id and key from the operating system's randomness.
    pub(crate) fn prepare(self, generation: u32, delivery: Delivery) -> Result<Prepared, Error> {
        within("destination", &self.destination, NAME_BYTES_MAX)?;
        within("operation", &self.operation, NAME_BYTES_MAX)?;
        within("business_ref", &self.business_ref, REFERENCE_BYTES_MAX)?;
        if let Some(order_key) = &self.order_key {
            within("order_key", order_key, REFERENCE_BYTES_MAX)?;
        }
        if self.request.len() > REQUEST_BYTES_MAX {
            return Err(Error::new(
                Kind::Request,
                format!(
                    "the request has {} bytes, and at most {REQUEST_BYTES_MAX} are kept and sent; put the bulk somewhere and send its address",
                    self.request.len()
                ),
            ));
        }
        if self.delay > DELAY_MAX {
            return Err(Error::new(
                Kind::Request,
                format!(
                    "the delay of {:?} is longer than {DELAY_MAX:?}; enqueue it when its time comes",
                    self.delay
                ),
            ));
        }
        let command = Command {
            id: CommandId::from_bytes(drawn_id()),
            action: Action {
                org: self.org,
                destination: self.destination,
                operation: self.operation,
                business_ref: self.business_ref,
            },
            generation,
            order_key: self.order_key,
            key: OutboundKey::from_bytes(uuid::Uuid::new_v4().into_bytes()),
            request: self.request,
        };
        Ok(Prepared { command, delivery })
    }
}

impl Prepared {
    /// What becoming of this command in the outbox means: it is there, as new or as before, or its action
    /// has another content there.
    ///
    /// # Errors
    /// [`Kind::OtherContent`].
    pub fn placed(&self, enqueued: Enqueued) -> Result<Placed, Error> {
        match enqueued {
            Enqueued::New => Ok(Placed { id: self.command.id, is_new: true }),
            Enqueued::Found(known, _)
                if known.request == self.command.request
                    && known.order_key == self.command.order_key
                    && known.generation >= self.command.generation =>
            {
                Ok(Placed { id: known.id, is_new: false })
            }
            Enqueued::Found(..) => Err(Error::new(
                Kind::OtherContent,
                "this business action has a command already, with another request; one action has one content: look at `samekey commands list`, and for another one use another business reference",
            )),
        }
    }
}

fn drawn_id() -> [u8; 16] {
    uuid::Uuid::now_v7().into_bytes()
}

fn within(name: &str, found: &str, bytes_max: usize) -> Result<(), Error> {
    if found.is_empty() || found.len() > bytes_max || found.contains(char::is_control) {
        return Err(Error::new(
            Kind::Request,
            format!(
                "`{name}` has {} bytes; expected 1 to {bytes_max} without control characters",
                found.len()
            ),
        ));
    }
    Ok(())
}
