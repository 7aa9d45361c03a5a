//! What becomes of writes whose log entries nobody takes, or takes no longer.

use super::*;
use crate::{Change, ChangeObserver};
use document::doc;
use storage::{CommitError, WriteUnit};

/// Gives each unit an entry.
#[derive(Debug)]
struct Logging;

impl ChangeObserver for Logging {
    fn observe(&self, _change: Change<'_>, _unit: &mut WriteUnit) {}

    fn end_unit(&self, unit: &mut WriteUnit) {
        unit.entries_mut().push(b"entry".to_vec());
    }
}

#[test]
fn who_writes_is_told_that_the_member_is_not_the_primary_or_no_longer() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        insert(&things, doc! { "_id": 1 }).expect("nobody logs it");
        let proposals = catalog.store().take_proposals(Arc::new(|| {}));
        let context = OperationContext { observer: Some(&Logging), ..*writing(&things) };
        let documents = buffers((2..5).map(|id| doc! { "_id": id }));
        let documents: Vec<RawDocument<'_>> = documents.iter().map(DocumentBuf::as_raw).collect();
        let report = block_on(things.insert_many(&context, &documents, false));
        let codes: Vec<i32> = report.errors.iter().map(|(_, error)| error.code()).collect();
        assert_eq!((report.inserted, codes), (0, vec![10_107; 3]));
        let created = block_on(catalog.collection_or_create(&context, "test", "others"));
        assert_code(created, 10_107);
        proposals.accept();
        let refused = std::thread::scope(|scope| {
            let inserted = scope.spawn(|| block_on(things.insert(&context, documents[0])).map(drop));
            let group = loop {
                match proposals.next_group() {
                    Some(group) => break group,
                    None => std::thread::yield_now(),
                }
            };
            group.refuse(CommitError::SteppedDown);
            inserted.join().expect("no panic")
        });
        assert_write_code(refused, 11_602);
        assert_eq!(all(&things).len(), 1);
    });
}
