//! Fault plans: what they may say, how they are read, and what they decide about a request. Nothing here does IO.

mod plan;
mod planner;
mod read;

pub use plan::{
    AnswerPlan, Body, Connections, Cut, Delay, Door, End, Goaway, Keys, Late, OnMismatch, Plan,
    Process, QueryAnswer, Raw, Rule, Trickle, When, Wire,
};
pub use planner::{Course, Dice, Facts, Planner};
