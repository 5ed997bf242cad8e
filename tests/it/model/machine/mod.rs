//! The pure machine, driven by a tiny task over a log in memory: whatever happens in whatever
//! order, everybody is answered once, and nothing is said that is not in the log.

mod effects;
mod events;
mod world;

use proptest::prelude::*;
use rejoin::session::AnswerDue;

use crate::support::env;
use world::{Ask, Say, World};

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Asks(Ask),
    Cancels {
        withdraw: bool,
    },
    /// Another session is made of it.
    Lends,
    Says(Say),
    /// Well or not, and whether it is the oldest turn.
    Ends(bool, bool),
    Replayed(bool),
    Attaches(bool),
    /// The engine asks, for the log or not.
    Inquires(bool),
    TakesBack,
    Responds(bool),
    /// Well or not, and whether the log notes it.
    Serves(bool, bool),
    /// One of the next effects fails.
    Fails(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    let ask = prop_oneof![
        3 => Just(Ask::Load),
        1 => Just(Ask::LoadFrom),
        2 => Just(Ask::Resume),
        4 => Just(Ask::Prompt(AnswerDue::TurnEnds)),
        2 => Just(Ask::Prompt(AnswerDue::Logged)),
        2 => Just(Ask::Call),
        2 => Just(Ask::Close),
        1 => Just(Ask::Archive),
        1 => Just(Ask::Delete),
    ];
    let say = prop_oneof![Just(Say::Text), Just(Say::Begin), Just(Say::Done)];
    prop_oneof![
        8 => ask.prop_map(Happens::Asks),
        2 => any::<bool>().prop_map(|withdraw| Happens::Cancels { withdraw }),
        1 => Just(Happens::Lends),
        8 => say.prop_map(Happens::Says),
        3 => (prop::bool::weighted(0.8), any::<bool>()).prop_map(|(well, oldest)| Happens::Ends(well, oldest)),
        4 => prop::bool::weighted(0.8).prop_map(Happens::Replayed),
        6 => prop::bool::weighted(0.8).prop_map(Happens::Attaches),
        2 => any::<bool>().prop_map(Happens::Inquires),
        1 => Just(Happens::TakesBack),
        2 => any::<bool>().prop_map(Happens::Responds),
        2 => any::<(bool, bool)>().prop_map(|(well, info)| Happens::Serves(well, info)),
        1 => (0usize..6).prop_map(Happens::Fails),
    ]
}

/// How the session is made, unless it is there already.
fn made() -> impl Strategy<Value = Option<Ask>> {
    prop_oneof![
        2 => Just(None),
        2 => Just(Some(Ask::New)),
        1 => Just(Some(Ask::Fork)),
        1 => any::<bool>().prop_map(|replay| Some(Ask::Import(replay))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if env::slow() { 50_000 } else { 1000 }))]

    #[test]
    fn every_request_is_answered_and_every_update_logged(
        made in made(),
        overlaps in any::<bool>(),
        happenings in prop::collection::vec(happens(), 0..60),
    ) {
        let mut world = World::new(overlaps, made);
        for happening in happenings {
            match happening {
                Happens::Asks(ask) => world.ask(ask),
                Happens::Cancels { withdraw } => world.cancel(withdraw),
                Happens::Lends => world.lend(),
                Happens::Says(say) => world.says(say),
                Happens::Ends(well, oldest) => world.ends(well, oldest),
                Happens::Replayed(well) => world.replayed(well),
                Happens::Attaches(well) => world.attaches(well),
                Happens::Inquires(logged) => world.inquires(logged),
                Happens::TakesBack => world.takes_back(),
                Happens::Responds(well) => world.responds(well),
                Happens::Serves(well, info) => world.serves(well, info),
                Happens::Fails(effects) => world.fail_in(effects),
            }
        }
        world.come_to_rest();
    }
}
