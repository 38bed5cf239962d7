//! The offers of a group.

use super::batches::{Offer, Scopes, load};
use super::cells::{self, Arrays, Cell};
use super::connection::Connection;
use super::failure;
use super::group::Results;
use super::intents::Intents;
use super::sql::{self, Sql};
use super::value::{Moment, Span};
use crate::Arrived;
use crate::error::StoreError;
use crate::row::Row;
use futures_util::future::join_all;
use samekey_core::record::State;
use samekey_core::time::Time;

/// The offers of a group as parameters.
pub(super) struct Claims<'a> {
    offers: &'a [&'a Offer],
    scopes: Scopes<'a>,
    columns: Arrays<Span>,
    intents: Intents<'a>,
    /// Whether all of them are claims, as almost always: those have few columns.
    only_claims: bool,
}

impl<'a> Claims<'a> {
    /// The offers have to be in the order of their scopes.
    pub(super) fn of(offers: &'a [&'a Offer]) -> Claims<'a> {
        let mut columns = Arrays::default();
        let mut intents = Intents::default();
        for offer in offers {
            columns.push(Row::of(&offer.record));
            intents.push(&offer.record, &offer.intent);
        }
        let scopes = Scopes::of(offers.iter().map(|offer| &offer.scope));
        let only_claims =
            offers.iter().all(|offer| matches!(offer.record.state, State::Running(_)));
        Claims { offers, scopes, columns, intents, only_claims }
    }

    /// The statement that inserts them; none where there are none.
    pub(super) fn statement(&self) -> Option<&'static Sql> {
        let statement = if self.only_claims { &sql::CLAIM_GROUP } else { &sql::OFFER_GROUP };
        (!self.offers.is_empty()).then_some(statement)
    }

    /// Its parameters.
    pub(super) fn parameters(&self) -> Vec<Cell<'_>> {
        let mut parameters: Vec<Cell<'_>> = vec![&self.scopes.orgs, &self.scopes.keys];
        if self.only_claims {
            parameters.extend(self.columns.claimed());
            parameters.extend(self.intents.claimed());
        } else {
            parameters.extend(self.columns.all());
            parameters.extend(self.intents.all());
        }
        parameters
    }

    /// What came of each offer, after the commit. Those that were not inserted are loaded in one go:
    /// they are few, since an engine looks for a replay before it offers.
    pub(super) async fn arrived(
        &self,
        connection: &Connection,
        rows: &[tokio_postgres::Row],
    ) -> Result<Results<Arrived>, StoreError> {
        let mut inserted: Vec<Option<Time>> = vec![None; self.offers.len()];
        for row in rows {
            let place = self.scopes.place(row)?;
            let now: Moment = row.try_get(2).map_err(|_| failure::column())?;
            *inserted.get_mut(place).ok_or_else(failure::missing)? = Some(Time::from_micros(now.0));
        }
        let there = self.offers.iter().zip(&inserted).filter(|(_, now)| now.is_none());
        let loads = there.map(|(offer, _)| load(connection, &offer.scope));
        let mut loaded = join_all(loads).await.into_iter();
        let mut arrived = Vec::with_capacity(inserted.len());
        for (offer, now) in self.offers.iter().zip(inserted) {
            arrived.push(match now {
                Some(now) => Ok(Arrived::Inserted(cells::inserted(&offer.record, now))),
                // It may have been swept since; then the caller sees a key that is free, and comes
                // again with its offer.
                None => loaded.next().ok_or_else(failure::missing)?.map(Arrived::Found),
            });
        }
        Ok(arrived)
    }
}
