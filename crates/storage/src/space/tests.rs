use super::*;
use shelf::Shelf;

#[path = "../../tests/store/space/shelf.rs"]
mod shelf;

const MIB: u64 = 1 << 20;
const RESERVE: u64 = 100 * MIB;

fn space(free: u64, held: u64) -> (Arc<Shelf>, Space) {
    let shelf = Arc::new(Shelf { free: Mutex::new(free), reserve: Mutex::new(held) });
    let space = Space::new(Some(Arc::clone(&shelf) as Arc<dyn Disk>), RESERVE);
    space.before_open().unwrap();
    (shelf, space)
}

#[track_caller]
fn check(shelf: &Shelf, space: &Space, free: u64, pressure: &Pressure, state: SpaceState, reserve: u64) {
    *shelf.free.lock() = free;
    space.look(pressure, MIB, Instant::now());
    assert_eq!((space.state(), shelf.reserve()), (state, reserve), "at {} MiB", free / MIB);
}

fn refused(space: &Space) -> Vec<Growth> {
    let all = [Growth::Grows, Growth::Keeps, Growth::Shrinks];
    all.into_iter().filter(|growth| space.refusal(*growth).is_some()).collect()
}

#[test]
fn from_normal_over_low_and_full_and_back() {
    let (shelf, space) = space(1000 * MIB, 0);
    assert_eq!(shelf.reserve(), RESERVE, "the reserve is made at the start");
    let calm = Pressure::default();
    let look = |free, state, reserve| check(&shelf, &space, free * MIB, &calm, state, reserve);
    look(101, SpaceState::Normal, RESERVE);
    assert_eq!(refused(&space), []);
    look(99, SpaceState::Low, RESERVE);
    assert_eq!(refused(&space), [Growth::Grows]);
    look(120, SpaceState::Low, RESERVE);
    look(24, SpaceState::Full, RESERVE / 2);
    assert_eq!(*shelf.free.lock(), 24 * MIB + RESERVE / 2, "it is free for others");
    assert_eq!(refused(&space), [Growth::Grows, Growth::Keeps]);
    look(249, SpaceState::Full, RESERVE / 2);
    look(250, SpaceState::Normal, RESERVE);
    assert_eq!(*shelf.free.lock(), 200 * MIB, "the reserve comes first");
    assert_eq!(refused(&space), []);
}

#[test]
fn what_is_about_to_be_written_counts() {
    let (shelf, space) = space(1000 * MIB, 0);
    let busy = Pressure { unflushed_bytes: 50 * MIB, level0_files: 10, ..Pressure::default() };
    check(&shelf, &space, 161 * MIB, &busy, SpaceState::Normal, RESERVE);
    check(&shelf, &space, 159 * MIB, &busy, SpaceState::Low, RESERVE);
    let calm = Pressure::default();
    check(&shelf, &space, 159 * MIB, &calm, SpaceState::Low, RESERVE);
    check(&shelf, &space, 258 * MIB, &calm, SpaceState::Low, RESERVE);
    check(&shelf, &space, 259 * MIB, &calm, SpaceState::Normal, RESERVE);
}

#[test]
fn an_engine_without_room_has_the_reserve_whatever_the_disk_says() {
    let (shelf, space) = space(1000 * MIB, 0);
    let starved = Pressure { out_of_space: true, ..Pressure::default() };
    check(&shelf, &space, 900 * MIB, &starved, SpaceState::Full, RESERVE / 2);
    check(&shelf, &space, 900 * MIB, &starved, SpaceState::Full, RESERVE / 2);
    space.look(&starved, MIB, Instant::now() + ENGINE_PATIENCE);
    assert_eq!(shelf.reserve(), RESERVE / 4, "it needs more than it got");
    check(&shelf, &space, 900 * MIB, &Pressure::default(), SpaceState::Normal, RESERVE);
}

#[test]
fn commits_wait_for_the_engine_to_use_what_is_given_up() {
    let (shelf, space) = space(1000 * MIB, 0);
    let now = Instant::now();
    assert!(!space.holds_commits(now, || false), "nobody has found the disk full");
    assert!(space.make_way(now));
    assert!(space.holds_commits(now, || false));
    assert!(!space.holds_commits(now, || true), "the engine writes again");
    assert!(!space.holds_commits(now, || false));
    assert!(space.make_way(now));
    assert!(!space.holds_commits(now + HOLD, || false), "not for ever");
    assert!(space.make_way(now) && !space.make_way(now), "the rest is for the next start");
    assert_eq!(shelf.reserve(), RESERVE / KEPT_FOR_START);
}

#[test]
fn whoever_fills_the_disk_does_not_get_all_of_the_reserve_at_once() {
    let (shelf, space) = space(1000 * MIB, 0);
    let (mut now, calm) = (Instant::now(), Pressure::default());
    for reserve in [RESERVE / 2, RESERVE / 4, RESERVE / 8, RESERVE / 8] {
        *shelf.free.lock() = 0;
        space.look(&calm, MIB, now);
        space.look(&calm, MIB, now);
        assert_eq!(shelf.reserve(), reserve);
        now += NEXT_HALF_PAUSE;
    }
}

#[test]
fn a_start_on_a_full_disk_has_all_of_the_reserve() {
    let (shelf, space) = space(0, RESERVE / KEPT_FOR_START);
    assert_eq!((space.state(), shelf.reserve()), (SpaceState::Full, RESERVE / KEPT_FOR_START / 2));
    assert!(space.give_up_all() && !space.give_up_all(), "the engine needs more");
    check(&shelf, &space, 0, &Pressure::default(), SpaceState::Full, 0);
    check(&shelf, &space, 50 * MIB, &Pressure::default(), SpaceState::Full, RESERVE / KEPT_FOR_START);
    check(&shelf, &space, 400 * MIB, &Pressure::default(), SpaceState::Normal, RESERVE);
}

#[test]
fn a_start_with_little_room_has_a_reserve_before_anything_else() {
    let (shelf, space) = space(130 * MIB, 0);
    assert_eq!(shelf.reserve(), RESERVE);
    check(&shelf, &space, 30 * MIB, &Pressure::default(), SpaceState::Low, RESERVE);
}

#[test]
fn a_small_reserve_keeps_enough_for_a_start() {
    let kept = |reserve| Space::new(None, reserve).kept_for_start();
    assert_eq!([kept(800 * MIB), kept(10 * MIB), kept(MIB), kept(0)], [100 * MIB, 5 * MIB, MIB / 2, 0]);
}

#[test]
fn reserves_by_the_size_of_the_disk() {
    const GIB: u64 = 1 << 30;
    let reserve = |total| default_reserve(total, 64 * MIB);
    assert_eq!(reserve(1000 * GIB), GIB, "no more than a gigabyte");
    assert_eq!(reserve(50 * GIB), 50 * GIB / 100, "a hundredth");
    assert_eq!(reserve(10 * GIB), 192 * MIB, "what a flush and a compaction need");
    assert_eq!(reserve(GIB), GIB / 100 * 5, "little of a small disk");
}

#[test]
fn a_store_in_memory_is_never_full() {
    let space = Space::unwatched();
    assert!(!space.make_way(Instant::now()));
    space.look(&Pressure { out_of_space: true, ..Pressure::default() }, MIB, Instant::now());
    assert_eq!(refused(&space), []);
}

#[test]
fn the_reserve_takes_blocks_and_gives_them_back() {
    let directory = tempfile::tempdir().unwrap();
    let disk = DataDisk::of(directory.path());
    assert_eq!(disk.reserve(), 0);
    for bytes in [MIB, 3 * MIB, MIB / 2] {
        disk.set_reserve(bytes).unwrap();
        assert_eq!(disk.reserve(), bytes);
    }
    assert!(disk.set_reserve(1 << 60).is_err(), "no disk has so much room");
    disk.set_reserve(0).unwrap();
    assert_eq!((disk.reserve(), std::fs::read_dir(directory.path()).unwrap().count()), (0, 0));
    disk.set_reserve(0).unwrap();
}

#[test]
fn a_compaction_needs_no_more_than_the_reserve() {
    const GIB: u64 = 1 << 30;
    let fitted = |disk, reserve| {
        let options = StorageOptions { disk_reserve_bytes: reserve, ..StorageOptions::default() };
        let options = options.fitted_to(disk);
        (options.table_bytes, options.disk_reserve_bytes)
    };
    assert_eq!(fitted(1000 * GIB, None), (64 * MIB, Some(GIB)));
    assert_eq!(fitted(10 * GIB, None), (12 * MIB, Some(192 * MIB)));
    for disk in [GIB / 4, GIB, 2 * GIB, 10 * GIB, 50 * GIB, 1000 * GIB] {
        let (table, reserve) = fitted(disk, None);
        let read = StorageOptions::TABLES_IN_RESERVE * table;
        assert!(reserve.is_some_and(|reserve| read <= reserve), "{read} of {reserve:?} on {disk}");
    }
    assert_eq!(fitted(1000 * GIB, Some(MIB)), (8 * MIB, Some(MIB)), "not smaller for the reserve alone");
    assert_eq!(fitted(1000 * GIB, Some(0)), (64 * MIB, Some(0)));
}

#[test]
fn what_another_one_has_taken_all_of_is_told_once_nothing_is_left_to_give_up() {
    let (shelf, space) = space(1000 * MIB, 0);
    let (began, stuck) = (Instant::now(), Pressure { out_of_space: true, ..Pressure::default() });
    let kept = space.kept_for_start();
    let after = |seconds: u64| {
        let now = began + Duration::from_secs(seconds);
        *shelf.free.lock() = 0;
        space.look(&stuck, MIB, now);
        (shelf.reserve(), space.is_exhausted(&stuck, now))
    };
    assert_eq!(after(0), (RESERVE / 2, false));
    assert_eq!(after(2), (RESERVE / 4, false), "whoever takes it is given the next half later");
    assert_eq!(after(4), (kept, false));
    assert_eq!(after(4 + HOLD.as_secs() - 1), (kept, false), "the engine may find it yet");
    assert_eq!(after(4 + HOLD.as_secs()), (kept, true));
    let later = began + Duration::from_secs(60);
    assert!(!space.is_exhausted(&Pressure::default(), later), "the engine has found room");
    space.refuse_all(true);
    assert_eq!(refused(&space), [Growth::Grows, Growth::Keeps, Growth::Shrinks]);
    space.refuse_all(false);
    assert_eq!(refused(&space), [Growth::Grows, Growth::Keeps]);
}
