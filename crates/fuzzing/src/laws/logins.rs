//! Messages of a login: they end in an error or an answer, nobody logs in without the password, and who has
//! it does.

use std::sync::LazyLock;

use access::{Mechanism, ScramClient, ScramCredentials, ScramKeys, ScramServer};

use super::{HOLDS, Met, REFUSED};
use crate::generate::mutated;
use crate::source::Source;

/// As few as a client takes.
const ITERATIONS: u32 = 4096;
const PASSWORD: &str = "pencil";
const OTHER_PASSWORD: &str = "crayon";
const SALT_BYTE: u8 = 3;

/// Made once: each takes thousands of rounds of a hash.
struct Known {
    credentials: ScramCredentials,
    right: ScramKeys,
    wrong: ScramKeys,
}

fn known(mechanism: Mechanism) -> &'static Known {
    static ALL: LazyLock<[Known; 2]> = LazyLock::new(|| {
        Mechanism::ALL.map(|mechanism| {
            let salt = vec![SALT_BYTE; mechanism.salt_length()];
            Known {
                credentials: ScramCredentials::new(mechanism, PASSWORD, &salt, ITERATIONS),
                right: ScramKeys::new(mechanism, PASSWORD, &salt, ITERATIONS),
                wrong: ScramKeys::new(mechanism, OTHER_PASSWORD, &salt, ITERATIONS),
            }
        })
    });
    let place = Mechanism::ALL.iter().position(|known| *known == mechanism).expect("it is one of them");
    &ALL[place]
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let mechanism = source.pick(&Mechanism::ALL);
    let known = known(mechanism);
    let (client, first) = ScramClient::begin(mechanism, "us,er", b"fyko+d2lbbFgONRv9qkxdawL");
    let first = mutated(&mut source, first.as_bytes());
    let begun = ScramServer::begin(mechanism, &first, known.credentials.clone(), &[7; 24]);
    let Ok((server, answer)) = begun else {
        assert!(ScramServer::user_of(&first).is_err(), "both read the message in the same way");
        return met.note(REFUSED);
    };
    assert!(ScramServer::user_of(&first).is_ok_and(|user| !user.is_empty()));
    let answer = mutated(&mut source, answer.as_bytes());
    let Ok(challenge) = client.challenge(&answer) else { return met.note("no challenge") };
    let knows = !source.one_in(4);
    let proof = client.prove(&challenge, if knows { &known.right } else { &known.wrong });
    let last = mutated(&mut source, proof.message.as_bytes());
    match server.finish(&last) {
        Ok(signature) => {
            // `c=eSws` and the base64 of a proof can be written in one way only.
            assert!(
                knows && last == proof.message.as_bytes(),
                "a login by {:?}",
                String::from_utf8_lossy(&last)
            );
            assert_eq!(proof.check_server(signature.as_bytes()), Ok(()), "the server knows the password");
            met.note(HOLDS);
        }
        Err(_) => met.note("wrong proof"),
    }
}
