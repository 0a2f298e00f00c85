//! The load driver, against a server that behaves and against others. Nothing here depends on how
//! fast anything is: the server tells when enough requests have come.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod support;

use disktime_client::{
    ConnectionError, Counters, Load, LoadError, LoadReport, LoadSpec, MissReports, OUTSTANDING_MAX,
    Options, ProfileError, ProfileTarget,
};
use disktime_core::Duration;
use disktime_nbd::{BlockSizes, Command, NbdError, ProtocolError, TransmissionFlags};
use disktime_workload::{Arrivals, Extent, Pace, Pattern, Playback, SizeWeight, Spec, SpecError};
use support::{Conduct, TestServer, impatient};

const SIZE: usize = 1 << 20;

fn mixed() -> LoadSpec {
    LoadSpec {
        name: "mixed".into(),
        workload: Spec {
            pattern: Pattern::Random,
            extent: Extent { start: 0, end: SIZE as u64 },
            sizes: vec![
                SizeWeight { bytes: 4096, weight: 3 },
                SizeWeight { bytes: 65_536, weight: 1 },
            ],
            reads_permille: 600,
            trims_permille: 0,
            flush_after: None,
        },
        pace: closed(16),
        seed: 1,
        options: Options::default(),
    }
}

fn closed(outstanding: u32) -> Pace {
    Pace::Closed { outstanding, think: Duration::ZERO }
}

fn run(conduct: Conduct, requests: usize, spec: LoadSpec) -> (TestServer, LoadReport) {
    let server = TestServer::start(conduct, SIZE);
    let load = Load::start(&server.uri, spec).unwrap();
    server.wait_for(requests);
    let report = load.stop();
    (server, report)
}

#[track_caller]
fn assert_sums(report: &LoadReport) {
    let Counters { issued, completed, failed, latency_ns_max, .. } = report.counters;
    assert_eq!(issued, completed + failed + report.unanswered);
    let latency = report.latency;
    assert!(latency.p50_us <= latency.p99_us && latency.p99_us <= latency.max_us, "{latency:?}");
    assert!(latency.mean_us <= latency.max_us);
    assert!((latency.max_us * 1e3 - latency_ns_max as f64).abs() < 1.0);
}

#[test]
fn a_closed_loop_keeps_its_number_outstanding_and_counts_everything() {
    for structured_replies in [false, true] {
        // Answering 16 at a time, this server would wait for ever for a 16th of 15.
        let mut spec = LoadSpec { options: impatient(), ..mixed() };
        spec.options.structured_replies = structured_replies;
        let server = TestServer::start(Conduct::Backwards(16), SIZE);
        let load = Load::start(&server.uri, spec).unwrap();
        server.wait_for(2000);
        assert!(!load.has_ended());
        // The server has taken 2000 of at most 16 outstanding: the rest was answered and read.
        let running = load.counters();
        assert!(running.completed >= 1900, "{running:?}");
        let report = load.stop();
        assert!(report.counters.completed >= running.completed);
        assert_sums(&report);
        // A batch that the stop left incomplete is never answered.
        assert!(report.counters.failed == 0 && report.unanswered < 16, "{report:?}");
        let counters = report.counters;
        assert!(counters.bytes_read > 0 && counters.bytes_written > 0);
        assert!(report.latency.p50_us > 0.0);
        assert!(report.cpu > Duration::ZERO && report.elapsed > Duration::ZERO);
    }
}

/// The server saw as many requests as were counted, the farewell is there, and noise was written.
#[test]
fn the_server_sees_what_the_report_says() {
    let mut spec = mixed();
    spec.workload.reads_permille = 500;
    let server = TestServer::start(Conduct::Honest, SIZE);
    let load = Load::start(&server.uri, spec).unwrap();
    let first: Vec<_> = server.taken.iter().take(500).collect();
    let report = load.stop();
    let mut seen = first;
    while seen.last().unwrap().command != Command::Disconnect {
        seen.push(server.taken.recv().unwrap());
    }
    assert_sums(&report);
    assert_eq!(report.counters.issued, seen.len() as u64 - 1);
    let bytes = |command| {
        let of_it = seen.iter().filter(|header| header.command == command);
        of_it.map(|header| header.length).sum::<u64>()
    };
    assert_eq!(report.counters.bytes_read, bytes(Command::Read));
    assert_eq!(report.counters.bytes_written, bytes(Command::Write));
    let memory = server.memory.lock().unwrap();
    assert!(memory.iter().filter(|&&byte| byte != 0).count() > SIZE / 4);
}

#[test]
fn one_seed_is_one_sequence() {
    let sequence = |seed| {
        let mut spec = LoadSpec { seed, ..mixed() };
        spec.pace = closed(4);
        let server = TestServer::start(Conduct::Honest, SIZE);
        let _load = Load::start(&server.uri, spec).unwrap();
        let taken = server.taken.iter().take(300);
        taken.map(|header| (header.command, header.offset, header.length)).collect::<Vec<_>>()
    };
    assert_eq!(sequence(5), sequence(5));
    assert_ne!(sequence(5), sequence(6));
}

#[test]
fn an_open_loop_goes_by_time_and_not_by_replies() {
    let interval = Duration::from_micros(50);
    for arrivals in [Arrivals::Constant { interval }, Arrivals::Poisson { mean: interval }] {
        let spec = LoadSpec { pace: Pace::Open(arrivals), ..mixed() };
        let (_server, report) = run(Conduct::Honest, 500, spec);
        assert_sums(&report);
        assert_eq!((report.lost, report.unanswered), (None, 0));
        let due = report.elapsed.as_nanos() / interval.as_nanos();
        if arrivals == (Arrivals::Constant { interval }) {
            assert!(report.counters.issued <= due + 1, "{report:?}, {due} were due");
        }
    }
}

/// It would be easy to spin, or to queue without end, once nothing more can be outstanding.
#[test]
fn an_open_loop_stops_at_the_bound_and_still_stops_when_told() {
    let interval = Duration::from_micros(1);
    let pace = Pace::Open(Arrivals::Constant { interval });
    let spec = LoadSpec { pace, options: impatient(), ..mixed() };
    let (_server, report) = run(Conduct::Silent, OUTSTANDING_MAX, spec);
    assert_sums(&report);
    assert_eq!(report.unanswered, OUTSTANDING_MAX as u64);
    assert_eq!(report.lost, Some(ConnectionError::Timeout { timeout: impatient().timeout }));
}

#[test]
fn thinking_holds_requests_back() {
    let think = Duration::from_millis(1);
    let spec = LoadSpec { pace: Pace::Closed { outstanding: 2, think }, ..mixed() };
    let (_server, report) = run(Conduct::Honest, 20, spec);
    assert_eq!(report.lost, None);
    assert!(report.elapsed >= Duration::from_millis(9), "{report:?}");
}

#[test]
fn errors_are_counted_and_the_load_goes_on() {
    let (_server, report) = run(Conduct::Fails(NbdError::Io), 1000, mixed());
    assert_sums(&report);
    assert_eq!((report.lost, report.counters.completed, report.unanswered), (None, 0, 0));
    assert!(report.counters.failed >= 984 && report.counters.bytes_read == 0);
    assert_eq!(report.latency, disktime_client::Latency::default());
}

#[test]
fn each_way_to_break_a_connection_ends_the_load_with_its_error() {
    let timeout = impatient().timeout;
    for (conduct, expected) in [
        (Conduct::ClosesMidReply, ConnectionError::Closed),
        (Conduct::UnknownCookie, ProtocolError::UnknownCookie(!0).into()),
        (Conduct::Garbage, ProtocolError::ReplyMagic(u32::from_be_bytes(*b"200 ")).into()),
        (Conduct::Silent, ConnectionError::Timeout { timeout }),
    ] {
        let spec = LoadSpec { options: impatient(), ..mixed() };
        let (_server, report) = run(conduct, 1, spec);
        assert_sums(&report);
        assert_eq!(report.lost, Some(expected), "{conduct:?}");
        assert!(report.unanswered > 0, "{conduct:?}");
    }
}

#[test]
fn a_load_that_is_dropped_hangs_up() {
    let server = TestServer::start(Conduct::Honest, SIZE);
    drop(Load::start(&server.uri, mixed()).unwrap());
    let last = server.taken.iter().find(|header| header.command == Command::Disconnect);
    assert!(last.is_some());
}

/// A player that asks for more than any file gives misses, and each miss is a datagram.
#[test]
fn a_player_on_a_file_reports_its_misses() {
    let directory = tempfile::tempdir().unwrap();
    let (file, socket) = (directory.path().join("movie"), directory.path().join("misses"));
    std::fs::write(&file, vec![1; SIZE]).unwrap();
    let daemon = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    let playback = Playback {
        bytes_per_second: 1 << 50,
        buffer: Duration::from_micros(100),
        outstanding: 2,
        vbr_permille: 0,
    };
    let extent = Extent { start: 0, end: SIZE as u64 };
    for (reads_permille, bytes) in [(1000, 4096), (1000, 1000), (0, 4096)] {
        let reads = Spec::reads(Pattern::Sequential, extent, bytes);
        let workload = Spec { reads_permille, ..reads };
        let spec = LoadSpec { workload, pace: Pace::Player(playback), ..mixed() };
        let reports = MissReports::new(&socket, "video").unwrap();
        let load = Load::start_on_file(&file, spec, Some(reports)).unwrap();
        let mut name = [0; 9];
        let got = daemon.recv(&mut name).unwrap();
        assert_eq!(&name[..got], b"video");
        let report = load.stop();
        let counters = report.counters;
        assert!(counters.misses > 0 && counters.stalled_ns >= counters.stalled_ns_max);
        assert_eq!((counters.failed, report.unanswered, report.lost), (0, 0, None));
        while daemon.set_nonblocking(true).is_ok() && daemon.recv(&mut name).is_ok() {}
        daemon.set_nonblocking(false).unwrap();
    }
    let spec = |bytes: u64, end: u64| LoadSpec {
        workload: Spec::reads(Pattern::Sequential, Extent { start: 0, end }, bytes),
        ..mixed()
    };
    let refused = |path: &std::path::Path, spec| Load::start_on_file(path, spec, None).err();
    let past = Extent { start: 0, end: 2 << 20 };
    let past = LoadError::PastEnd { extent: past, export_bytes: 1 << 20 };
    assert_eq!(refused(&file, spec(4096, 2 << 20)), Some(past));
    // A server locks its files. Their data were overwritten.
    let locked = std::fs::File::open(&file).unwrap();
    locked.lock().unwrap();
    let writing = |bytes| {
        let read = spec(bytes, 4096);
        let workload = Spec { reads_permille: 0, ..read.workload.clone() };
        LoadSpec { workload, ..read }
    };
    assert_eq!(refused(&file, writing(4096)), Some(LoadError::InUse { path: file.clone() }));
    assert_eq!(refused(&file, spec(4096, 4096)), None);
    let profiled = ProfileTarget::file(&file, true).unwrap_err();
    assert!(matches!(profiled, ProfileError::InUse { .. }), "{profiled}");
    assert!(ProfileTarget::file(&file, false).is_ok());
    drop(locked);
    assert_eq!(refused(&file, writing(4096)), None);
    let path = directory.path().to_owned();
    assert_eq!(refused(&path, spec(4096, 4096)), Some(LoadError::NoFile { path: path.clone() }));
    let path = path.join("none");
    let missing = LoadError::File { path: path.clone(), errno: disktime_client::Errno::NOENT };
    assert_eq!(refused(&path, spec(4096, 4096)), Some(missing));
}

#[test]
fn a_load_that_does_not_fit_the_export_is_refused_before_it_starts() {
    fn attempt(server: &TestServer, change: impl FnOnce(&mut LoadSpec)) -> Option<LoadError> {
        let mut spec = mixed();
        change(&mut spec);
        Load::start(&server.uri, spec).err()
    }
    let plain = TestServer::start(Conduct::Honest, SIZE);
    let many = u32::try_from(OUTSTANDING_MAX).unwrap() + 1;
    let error = attempt(&plain, |spec| spec.pace = closed(many));
    assert_eq!(error, Some(LoadError::Outstanding { outstanding: many }));
    let error = attempt(&plain, |spec| spec.pace = closed(0));
    assert_eq!(error, Some(LoadError::Spec(SpecError::NothingOutstanding)));
    let error = attempt(&plain, |spec| spec.workload.sizes.clear());
    assert_eq!(error, Some(LoadError::Spec(SpecError::NoSizes)));
    let extent = Extent { start: 0, end: SIZE as u64 + 1 };
    let error = attempt(&plain, |spec| spec.workload.extent = extent);
    assert_eq!(error, Some(LoadError::PastEnd { extent, export_bytes: SIZE as u64 }));

    let small = TestServer::start_as(Conduct::Honest, SIZE, |export| {
        export.block_sizes = BlockSizes::new(4096, 4096, 32 << 10).unwrap();
        export.flags = TransmissionFlags::READ_ONLY;
    });
    let error = attempt(&small, |_| {});
    assert_eq!(error, Some(LoadError::TooLong { bytes: 65_536, bytes_max: 32 << 10 }));
    let unaligned = LoadError::Unaligned { bytes: 512, block_bytes: 4096 };
    let sizes = vec![SizeWeight { bytes: 512, weight: 1 }];
    let error = attempt(&small, |spec| spec.workload.sizes = sizes);
    assert_eq!(error, Some(unaligned.clone()));
    let error = attempt(&small, |spec| {
        spec.workload.sizes.truncate(1);
        spec.workload.extent.start = 512;
    });
    assert_eq!(error, Some(unaligned));
    let error = attempt(&small, |spec| spec.workload.sizes.truncate(1));
    assert_eq!(error, Some(LoadError::ReadOnly { permille: 600 }));

    let gone = TestServer::start(Conduct::ShortGreeting, SIZE);
    assert!(matches!(attempt(&gone, |_| {}), Some(LoadError::Connect(_))));
}
