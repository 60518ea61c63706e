//! The values of the flags, their defaults, and the errors for wrong values.

use super::*;
use clap::CommandFactory;

fn controller(args: &[&str]) -> Result<ControllerFlags, String> {
    let all = std::iter::once("podgroup-controller").chain(args.iter().copied());
    ControllerFlags::try_parse_from(all).map_err(|e| e.to_string())
}

fn scheduler(args: &[&str]) -> Result<SchedulerFlags, String> {
    let all = std::iter::once("podgroup-scheduler").chain(args.iter().copied());
    SchedulerFlags::try_parse_from(all).map_err(|e| e.to_string())
}

#[test]
fn the_definitions_are_consistent() {
    ControllerFlags::command().debug_assert();
    SchedulerFlags::command().debug_assert();
}

#[test]
fn without_flags_the_defaults_are_the_documented_ones() {
    let flags = controller(&[]).unwrap();
    assert!(flags.common.leader_elect && !flags.annotate_pods);
    assert_eq!(flags.common.scheduler_names, ["podgroup-scheduler"]);
    assert_eq!(flags.common.request_timeout, Duration::from_secs(10));
    assert_eq!(flags.common.log_format, LogFormat::Text);
    assert_eq!(flags.http_address.to_string(), "0.0.0.0:8080");
    let flags = scheduler(&[]).unwrap();
    assert_eq!(flags.http_address.to_string(), "0.0.0.0:8081");
    assert_eq!(flags.placement, Placement::Auto);
    assert_eq!(flags.queue_status, QueueStatusBy::Own);
    assert_eq!(flags.volume_timeout, Duration::from_secs(600));
}

#[test]
fn a_boolean_is_typed_bare_or_with_its_value() {
    let table = [
        (&[][..], true),
        (&["--leader-elect"][..], true),
        (&["--leader-elect=true"][..], true),
        (&["--leader-elect=false"][..], false),
        (&["--leader-elect", "false"][..], false),
        (&["--leader-elect", "true"][..], true),
        (&["--leader-elect", "--workers", "2"][..], true),
    ];
    for (args, on) in table {
        assert_eq!(controller(args).unwrap().common.leader_elect, on, "{args:?}");
    }
    // As the reference prints it.
    assert!(!scheduler(&["--evictions", "false"]).unwrap().evictions);
    assert!(scheduler(&["--evictions", "maybe"]).unwrap_err().contains("'maybe' for '--evictions"));
    assert!(controller(&["--annotate-pods"]).unwrap().annotate_pods);
    assert!(!controller(&["--annotate-pods=false"]).unwrap().annotate_pods);
}

#[test]
fn scheduler_names_on_the_command_line_replace_the_default() {
    let flags = scheduler(&["--scheduler-name", "volcano", "--scheduler-name=mine"]).unwrap();
    assert_eq!(flags.common.scheduler_names, ["volcano", "mine"]);
}

#[test]
fn an_unknown_flag_is_an_error_that_names_the_nearest() {
    let error = scheduler(&["--placment", "pack"]).unwrap_err();
    assert!(error.contains("--placment") && error.contains("'--placement'"), "{error}");
    let error = controller(&["--leader-elct=false"]).unwrap_err();
    assert!(error.contains("'--leader-elect'"), "{error}");
}

#[test]
fn a_bad_value_is_named_in_the_error() {
    for (flag, value) in [
        ("--kubeconfig", ""),
        ("--leader-elect", "perhaps"),
        ("--leader-elect-namespace", "Not_A_Namespace"),
        ("--leader-elect-lease-duration", "1500ms"),
        ("--leader-elect-retry-period", "0s"),
        ("--log-format", "yaml"),
        ("--request-timeout", "-3s"),
        ("--request-timeout", "10"),
        ("--request-timeout", "6m"),
        ("--secure-serving", "perhaps"),
        ("--tls-cert-file", ""),
        ("--scheduler-name", "a,b"),
        ("--scheduler-name", ""),
        ("--http-address", "localhost"),
        ("--http-address", ":70000"),
        ("--bind-concurrency", "0"),
        ("--bind-concurrency", "257"),
        ("--placement", "random"),
        ("--queue-status", "guess"),
        ("--volume-timeout", "0s"),
        ("--volume-timeout", "600"),
        ("--volume-timeout", "25h"),
    ] {
        let error = scheduler(&[&format!("{flag}={value}")]).unwrap_err();
        let named = error.contains(&format!("'{value}'")) || value.is_empty();
        assert!(named && error.contains(flag), "{flag}={value}: {error}");
    }
    assert!(controller(&["--workers=65"]).unwrap_err().contains("65"));
}

#[test]
fn a_port_alone_means_every_address() {
    let flags = scheduler(&["--http-address", ":9000"]).unwrap();
    assert_eq!(flags.http_address.to_string(), "0.0.0.0:9000");
    let flags = scheduler(&["--http-address", "[::1]:9000"]).unwrap();
    assert_eq!(flags.http_address.to_string(), "[::1]:9000");
}

#[test]
fn the_version_is_that_of_the_package() {
    let shown = controller(&["--version"]).unwrap_err();
    assert_eq!(shown.trim(), format!("podgroup-controller {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_certificate_needs_a_key_and_secure_serving() {
    let (certificate, key) = ("--tls-cert-file=/a", "--tls-private-key-file=/b");
    assert!(scheduler(&["--secure-serving", certificate]).unwrap_err().contains("--tls-private-key-file"));
    assert!(controller(&["--secure-serving", key]).unwrap_err().contains("--tls-cert-file"));
    let files = scheduler(&["--secure-serving", certificate, key]).unwrap().common.tls_files().unwrap().unwrap();
    assert_eq!((files.certificate.as_path(), files.key.as_path()), ("/a".as_ref(), "/b".as_ref()));
    assert!(scheduler(&[certificate, key]).unwrap().common.tls_files().unwrap_err().contains("--secure-serving"));
    assert_eq!(scheduler(&["--secure-serving"]).unwrap().common.tls_files(), Ok(None));
    assert!(!scheduler(&[]).unwrap().common.secure_serving);
}
