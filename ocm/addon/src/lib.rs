//! Add-ons as the product knows them: where they are installed, which configuration they get and when, and how their agents
//! are let in.
//!
//! [`agent`] is the half that runs on each cluster, [`hub`] the half that runs beside the API of the hub, and [`template`] makes
//! an add-on of an AddOnTemplate. What any other add-on does is not here: its author says that with the SDK, and the SDK's
//! manager runs it.

pub mod agent;
pub mod hub;
pub mod template;
pub mod why;
