//! Which column holds what: by the names that exports usually give, or as the caller says.

use crate::error::Error;
use crate::options::{Header, Options};

/// What a column can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The id of the payment itself.
    Id,
    /// The business reference that payments of one purchase share: an order, an invoice, a cart.
    Reference,
    /// When it happened.
    Time,
    /// How much, in the currency's units.
    Amount,
    /// In which currency.
    Currency,
    /// Who paid.
    Payer,
    /// Who was paid.
    Payee,
    /// The idempotency key that the request bore.
    Key,
    /// How it ended.
    Status,
    /// What it was: charge, authorisation, capture, refund, void.
    Operation,
    /// Which client or service sent it.
    Source,
    /// The id of the payment that this record continues: what a capture captures.
    Parent,
    /// How much of it was given back.
    Refunded,
    /// Whether it is one of a declared series.
    Recurring,
}

impl Field {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 14] = [
        Self::Id,
        Self::Reference,
        Self::Time,
        Self::Amount,
        Self::Currency,
        Self::Payer,
        Self::Payee,
        Self::Key,
        Self::Status,
        Self::Operation,
        Self::Source,
        Self::Parent,
        Self::Refunded,
        Self::Recurring,
    ];

    /// The word for it, as in the command's flags and in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Reference => "reference",
            Self::Time => "time",
            Self::Amount => "amount",
            Self::Currency => "currency",
            Self::Payer => "payer",
            Self::Payee => "payee",
            Self::Key => "key",
            Self::Status => "status",
            Self::Operation => "operation",
            Self::Source => "source",
            Self::Parent => "parent",
            Self::Refunded => "refunded",
            Self::Recurring => "recurring",
        }
    }

    /// Usual names, the more telling ones first; written as [`plain`] leaves them.
    fn usual_names(self) -> &'static [&'static str] {
        match self {
            Self::Id => &[
                "paymentid",
                "paymentintentid",
                "chargeid",
                "transactionid",
                "txnid",
                "txid",
                "recordid",
                "pspreference",
                "paymentno",
                "transactionno",
                "id",
                "payment",
                "transaction",
                "uuid",
            ],
            Self::Reference => &[
                "orderid",
                "ordernumber",
                "orderno",
                "orderref",
                "orderreference",
                "merchantreference",
                "merchantorderid",
                "businessref",
                "businessreference",
                "invoiceid",
                "invoicenumber",
                "invoiceno",
                "cartid",
                "bookingid",
                "externalreference",
                "externalid",
                "reference",
                "paymentreference",
                "order",
                "invoice",
                "cart",
                "booking",
                "ref",
            ],
            Self::Time => &[
                "createdat",
                "created",
                "createdon",
                "createddate",
                "timestamp",
                "datetime",
                "transactiondate",
                "transactiontime",
                "paymentdate",
                "paymenttime",
                "paidat",
                "occurredat",
                "processedat",
                "bookingdate",
                "eventtime",
                "time",
                "date",
                "at",
                "ts",
            ],
            Self::Amount => &[
                "amount",
                "amountminor",
                "amountcents",
                "amountincents",
                "minoramount",
                "grossamount",
                "totalamount",
                "transactionamount",
                "paymentamount",
                "total",
                "gross",
                "price",
                "sum",
                "value",
            ],
            Self::Currency => &["currency", "currencycode", "ccy", "isocurrency"],
            Self::Payer => &[
                "payer",
                "payerid",
                "customerid",
                "customer",
                "customeremail",
                "useremail",
                "email",
                "userid",
                "user",
                "cardfingerprint",
                "accountid",
                "account",
                "debtor",
                "buyer",
                "buyerid",
                "from",
                "card",
            ],
            Self::Payee => &[
                "payee",
                "payeeid",
                "merchantid",
                "merchant",
                "recipient",
                "creditor",
                "beneficiary",
                "destination",
                "seller",
                "sellerid",
                "to",
            ],
            Self::Key => {
                &["idempotencykey", "idempotency", "idemkey", "requestkey", "idempotencetoken"]
            }
            Self::Status => &["status", "state", "result", "outcome", "paymentstatus"],
            Self::Operation => &[
                "operation",
                "transactiontype",
                "paymenttype",
                "type",
                "kind",
                "eventtype",
                "recordtype",
                "action",
                "op",
            ],
            Self::Source => &[
                "source",
                "client",
                "clientid",
                "service",
                "channel",
                "origin",
                "application",
                "app",
                "useragent",
                "sdk",
            ],
            Self::Parent => &[
                "parentid",
                "parentpaymentid",
                "parenttransactionid",
                "parent",
                "originalid",
                "originalpaymentid",
                "originaltransactionid",
                "originalreference",
                "relatedid",
                "linkedid",
                "refersto",
                "authid",
                "authorizationid",
            ],
            Self::Refunded => &["amountrefunded", "refundedamount", "refunded", "refundtotal"],
            Self::Recurring => {
                &["recurring", "isrecurring", "subscriptionid", "subscription", "mandateid"]
            }
        }
    }
}

/// A header name without case, blanks, signs, and a `(UTC)` at its end.
pub(crate) fn plain(name: &str) -> String {
    let plain: String =
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    match plain.strip_suffix("utc") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        Some(_) | None => plain,
    }
}

/// Where each field stands in the records of one file, from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    places: [Option<usize>; Field::ALL.len()],
    /// A second column to read behind the time's: exports with the date and the hour apart.
    pub(crate) time_of_day: Option<usize>,
}

impl Columns {
    pub(crate) fn of(&self, field: Field) -> Option<usize> {
        Field::ALL
            .iter()
            .zip(self.places)
            .find(|(known, _)| **known == field)
            .and_then(|(_, place)| place)
    }

    fn set(&mut self, field: Field, place: usize) {
        if let Some((_, slot)) =
            Field::ALL.iter().zip(&mut self.places).find(|(known, _)| **known == field)
        {
            *slot = Some(place);
        }
    }

    /// The last column that is needed.
    pub(crate) fn last(&self) -> usize {
        self.places.iter().flatten().copied().max().unwrap_or(0).max(self.time_of_day.unwrap_or(0))
    }

    /// How many columns were found; what a separator is judged by.
    pub(crate) fn count(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// By usual names alone.
    pub(crate) fn by_usual_names(header: &[String]) -> Self {
        let names: Vec<String> = header.iter().map(|name| plain(name)).collect();
        let mut columns = Self::default();
        let mut taken = vec![false; names.len()];
        for field in Field::ALL {
            columns.take_usual(field, &names, &mut taken);
        }
        columns.add_time_of_day(&names);
        columns
    }

    fn take_usual(&mut self, field: Field, names: &[String], taken: &mut [bool]) {
        for usual in field.usual_names() {
            let found = names
                .iter()
                .zip(taken.iter_mut())
                .enumerate()
                .find(|(_, (name, taken))| name.as_str() == *usual && !**taken);
            if let Some((place, (_, taken))) = found {
                *taken = true;
                self.set(field, place);
                return;
            }
        }
    }

    fn add_time_of_day(&mut self, names: &[String]) {
        let find = |wanted: &str| names.iter().position(|name| name == wanted);
        if let (Some(date), Some(time)) = (find("date"), find("time"))
            && self.of(Field::Time).is_some_and(|place| place == date || place == time)
        {
            self.set(Field::Time, date);
            self.time_of_day = Some(time);
        }
    }

    /// As the options say, the rest by usual names.
    pub(crate) fn choose(header: &[String], options: &Options, name: &str) -> Result<Self, Error> {
        let names: Vec<String> = header.iter().map(|name| plain(name)).collect();
        let mut columns = Self::default();
        let mut taken = vec![false; names.len()];
        for (field, wanted) in &options.columns {
            let place = find_column(header, &names, wanted, options.header).ok_or_else(|| {
                Error::usage(format!(
                    "{name}: there is no column '{wanted}' for the {}; found: {}; give one of these \
                     names, or a number from 1 to {}",
                    field.word(),
                    listed(header),
                    header.len()
                ))
            })?;
            columns.set(*field, place);
            if let Some(taken) = taken.get_mut(place) {
                *taken = true;
            }
        }
        if options.header == Header::Named {
            for field in Field::ALL {
                if !options.columns.contains_key(&field) {
                    columns.take_usual(field, &names, &mut taken);
                }
            }
            if !options.columns.contains_key(&Field::Time) {
                columns.add_time_of_day(&names);
            }
        }
        columns.check(header, name)?;
        Ok(columns)
    }

    fn check(&self, header: &[String], name: &str) -> Result<(), Error> {
        let has = |field| self.of(field).is_some();
        let shared =
            has(Field::Reference) || has(Field::Key) || (has(Field::Payer) && has(Field::Amount));
        let missing = if !has(Field::Time) {
            "no column with the time of a payment (usually created_at); name one with --time"
        } else if !shared {
            "nothing that two records of one purchase would share (usually order_id, else \
             idempotency_key, else payer and amount); name a column with --reference"
        } else {
            return Ok(());
        };
        Err(Error::usage(format!("{name}: {missing}; found: {}", listed(header))))
    }
}

fn find_column(header: &[String], names: &[String], wanted: &str, kind: Header) -> Option<usize> {
    if kind == Header::Named {
        let exact = header.iter().position(|name| name == wanted);
        let alike = || names.iter().position(|name| *name == plain(wanted));
        if let Some(place) = exact.or_else(alike) {
            return Some(place);
        }
    }
    let number: usize = wanted.parse().ok()?;
    number.checked_sub(1).filter(|place| *place < header.len())
}

/// The column names for a sentence, cut where nobody would read on.
fn listed(header: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = header.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if header.len() > SHOWN {
        text.push_str(", …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn usual_names_in_any_dress() {
        let columns =
            Columns::by_usual_names(&header(&["Order ID", "id", "Created (UTC)", "Amount"]));
        assert_eq!(columns.of(Field::Reference), Some(0));
        assert_eq!(columns.of(Field::Id), Some(1));
        assert_eq!(columns.of(Field::Time), Some(2));
        assert_eq!(columns.of(Field::Amount), Some(3));
    }

    #[test]
    fn a_date_and_an_hour_apart_are_one_time() {
        let columns = Columns::by_usual_names(&header(&["Date", "Time", "Invoice Number"]));
        assert_eq!((columns.of(Field::Time), columns.time_of_day), (Some(0), Some(1)));
    }

    #[test]
    fn the_caller_overrules_and_is_told_what_is_there() {
        let mut options = Options::default();
        options.columns.insert(Field::Reference, "Basket".into());
        options.columns.insert(Field::Id, "1".into());
        let names = header(&["number", "basket", "created_at"]);
        let columns = Columns::choose(&names, &options, "a.csv").unwrap();
        assert_eq!((columns.of(Field::Reference), columns.of(Field::Id)), (Some(1), Some(0)));
        options.columns.insert(Field::Amount, "price".into());
        let error = Columns::choose(&names, &options, "a.csv").unwrap_err().to_string();
        assert!(error.contains("'price'") && error.contains("basket"), "{error}");
    }

    #[test]
    fn no_usable_column_is_one_clear_sentence() {
        let error =
            Columns::choose(&header(&["a", "b"]), &Options::default(), "a.csv").unwrap_err();
        assert!(error.to_string().contains("found: a, b"), "{error}");
    }
}
