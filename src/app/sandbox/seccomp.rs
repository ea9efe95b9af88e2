//! Which system calls this thread may still make (seccomp). All others fail with EPERM, which the caller reports as any
//! error.
//!
//! The background loses what it never needs: programs, other processes, the machine's settings, parts of the kernel
//! with many past holes. A worker keeps what a server needs on open sockets, and sockets that connect. A call that its
//! number alone decides costs nothing: the kernel caches the result (Linux 5.11).

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// For all threads but the broker.
pub(super) fn confine() -> io::Result<()> {
    let denied = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    install(denied, SeccompAction::Allow, refuse()).map_err(io::Error::other)
}

/// For a worker, in addition.
pub(super) fn confine_worker() -> io::Result<()> {
    let allowed = WORKER_ALLOWED.iter().map(|call| (*call, Vec::new()));
    let rules = conditional_rules().map(|conditional| allowed.chain(conditional).collect());
    rules.and_then(|rules| install(rules, refuse(), SeccompAction::Allow)).map_err(io::Error::other)
}

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;
type Result<T> = std::result::Result<T, seccompiler::Error>;

fn install(rules: SeccompRules, others: SeccompAction, these: SeccompAction) -> Result<()> {
    let arch = TargetArch::try_from(ARCH)?;
    let program: BpfProgram = SeccompFilter::new(rules, others, these, arch)?.try_into()?;
    apply_filter(&program)
}

fn refuse() -> SeccompAction {
    SeccompAction::Errno(libc::EPERM.unsigned_abs())
}

/// Calls that a worker may make with certain arguments only.
fn conditional_rules() -> Result<Vec<(i64, Vec<SeccompRule>)>> {
    let opens =
        |flags| with(vec![bits(flags, libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC, libc::O_RDONLY)?]);
    let is_not_code = || with(vec![bits(2, libc::PROT_EXEC, 0)?]);
    let connects = |family| {
        // TCP and Unix streams only: the port rules do not cover other sockets.
        with(vec![is(0, family)?, bits(1, SOCKET_TYPE, libc::SOCK_STREAM)?, at_most(2, libc::IPPROTO_TCP)?])
    };
    Ok(vec![
        (libc::SYS_openat, vec![opens(2)?]),
        (libc::SYS_mmap, vec![is_not_code()?]),
        (libc::SYS_mprotect, vec![is_not_code()?]),
        (
            libc::SYS_socket,
            vec![connects(libc::AF_INET)?, connects(libc::AF_INET6)?, connects(libc::AF_UNIX)?],
        ),
        (
            libc::SYS_ioctl,
            vec![controls(libc::FIONBIO)?, controls(libc::FIOCLEX)?, controls(libc::FIONREAD)?],
        ),
        // A worker may read its own limits.
        (libc::SYS_prlimit64, vec![with(vec![equals(2, 0)?])?]),
        // A signal to the process itself only: that is how it aborts.
        (libc::SYS_tgkill, vec![with(vec![equals(0, std::process::id().into())?])?]),
    ])
}

/// An ioctl request. Its type differs between C libraries.
fn controls<T>(request: T) -> Result<SeccompRule>
where
    u64: TryFrom<T>,
{
    with(vec![equals(1, u64::try_from(request).unwrap_or_default())?])
}

fn with(conditions: Vec<SeccompCondition>) -> Result<SeccompRule> {
    Ok(SeccompRule::new(conditions)?)
}

fn condition(argument: u8, how: SeccompCmpOp, value: i32) -> Result<SeccompCondition> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, u64::from(value.cast_unsigned()))?)
}

fn is(argument: u8, value: i32) -> Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn at_most(argument: u8, value: i32) -> Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Le, value)
}

fn bits(argument: u8, mask: i32, value: i32) -> Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::MaskedEq(u64::from(mask.cast_unsigned())), value)
}

fn equals(argument: u8, value: u64) -> Result<SeccompCondition> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, value)?)
}

/// Masks out the flags that may come with the type of a socket.
const SOCKET_TYPE: i32 = 0xf;

/// System calls of a worker. Those that name a file only read it; landlock decides which files open.
const WORKER_ALLOWED: &[i64] = &[
    // Sockets.
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    // Descriptors.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Waiting.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_futex,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Itself.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getcwd,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // The same under their older names.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// System calls denied to all threads but the broker.
const DENIED: &[i64] = &[
    // Programs and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Identity and namespaces.
    libc::SYS_chroot,
    libc::SYS_personality,
    libc::SYS_pivot_root,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setns,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    libc::SYS_unshare,
    // File systems.
    libc::SYS_fanotify_init,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mknodat,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_quotactl,
    libc::SYS_umount2,
    // The machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    // Parts of the kernel with many past holes.
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_perf_event_open,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
];
