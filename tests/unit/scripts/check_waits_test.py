#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of waits refuses what it must refuse, and only that. Usage: check_waits_test.py ROOT"""

import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(sys.argv[1])
checker = [sys.executable, str(root / "scripts/check-waits")]

# Each is planted in a file of its own and must be refused for this reason.
REFUSED = [
    ("condition-wait", ".cpp", "void f() { std::unique_lock lock(m); changed.wait(lock, [&] { return done; }); }"),
    ("condition-wait", ".cpp", "void f() { word.wait(0); }"),
    ("condition-wait", ".cpp", "void f() { latch->wait(); }"),
    ("condition-wait", ".cpp", "void f() { barrier.arrive_and_wait(); }"),
    ("condition-wait", ".cpp", "void f() { c.wait(lock, [&] { return Clock::now() > deadline; }); }"),
    ("endless-deadline", ".cpp", "void f() { c.wait_until(lock, Clock::time_point::max()); }"),
    ("endless-deadline", ".cpp", "void f() { hal::sleep_until(~std::uint64_t{0}); }"),
    ("endless-deadline", ".hpp", "inline void f() { hal::sleep_until(forever); }"),
    ("poll", ".cpp", "void f() { ::poll(events, 2, -1); }"),
    ("poll", ".cpp", "void f() { while (epoll_wait(fd, events, 8,\n  -1) < 0) g(); }"),
    ("poll", ".cpp", "void f() { ::ppoll(events, 2, nullptr, nullptr); }"),
    ("poll", ".cpp", "void f() { invoke(SYS_ppoll, events, 2); }"),
    ("process-wait", ".cpp", "void f() { ::waitpid(pid, &status, 0); }"),
    ("process-wait", ".cpp", "void f() { waitid(P_PID, pid, &info, WEXITED); }"),
    ("process-wait", ".cpp", "void f() { syscall(SYS_waitid, P_PID, pid, 0, WEXITED); }"),
    ("signal-bound", ".cpp", "void f() {\n  // bounded: it has ended, was sent SIGKILL, or ends with its link\n"
                             "  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {\n  }\n}"),
    ("signal-bound", ".cpp", "void f() { ::waitpid(child, nullptr, 0);  // bounded: it was killed above\n}"),
    ("unchecked-signal", ".cpp", "void f() { ::kill(child, SIGKILL); }"),
    ("unchecked-signal", ".cpp", "void f() { if (child > 0) ::kill(child, SIGTERM); }"),
    ("unchecked-signal", ".cpp", "void f() {\n  kill(child,\n       SIGKILL);\n}"),
    ("unchecked-signal", ".cpp", "void f() { (void)::kill(child, SIGKILL); }"),
    ("unchecked-signal", ".cpp", "void f() { ::syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0); }"),
    ("unchecked-signal", ".cpp", "void f() { invoke(SYS_pidfd_send_signal, child.pidfd, SIGKILL); }"),
    ("process-wait", ".sh", "sleep_a_lot &\nwait $!"),
    ("process-wait", ".sh", "make & wait"),
    ("process-wait", ".py", "import subprocess\nsubprocess.run(['make'])"),
    ("process-wait", ".py", "process.communicate()"),
    ("join", ".cpp", "void f() { thread_.join(); }"),
    ("join", ".cpp", "void f() { std::jthread worker([] { g(); }); }"),
    ("join", ".py", "worker.join()"),
    ("future", ".cpp", "int f() { auto answer = promise.get_future(); return answer.get(); }"),
    ("future", ".cpp", "int f() { return promise.get_future().get(); }"),
    ("future", ".cpp", "int f() { auto work = std::async(std::launch::async, g); return work.get(); }"),
    ("io-uring", ".cpp", "void f() { ::io_uring_submit_and_wait(&ring, 1); }"),
    ("io-uring", ".cpp", "void f() { io_uring_wait_cqe(&ring, &cqe); }"),
    ("blocking-call", ".cpp", "void f() { ::read(fd, bytes, sizeof bytes); }"),
    ("blocking-call", ".cpp", "void f() { return ::recv(socket, bytes, sizeof bytes, 0); }"),
    ("blocking-call", ".cpp", "void f() { ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC); }"),
    ("blocking-call", ".cpp", "void f() { fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); }"),
    ("blocking-call", ".cpp", "void f() { ::flock(fd, LOCK_EX); }"),
    ("blocking-call", ".cpp", "void f() { std::getline(std::cin, line); }"),
    ("blocking-call", ".cpp", "void f() { pause(); }"),
    ("blocking-call", ".sh", "exec 9>lock\nflock 9"),
    ("sleep", ".cpp", "void f() { std::this_thread::sleep_for(test_bounds::kLook); }"),
    ("sleep", ".cpp", "void f() { ::usleep(1000); }"),
    ("weak-end", ".cpp", "bool f() { return write.under_way.expired(); }"),
    ("weak-end", ".hpp", "bool f() { return owner->expired(); }  // bounded: it is looked at once only"),
    ("sleep", ".sh", "make\nsleep 1"),
    ("sleep", ".py", "import time\ntime.sleep(1)"),
    ("wfi", ".S", "park:\n  wfi\n  j park"),
    ("wfi", ".cpp", 'void f() { asm volatile("wfi" ::: "memory"); }'),
    ("endless-loop", ".cpp", "void f() { for (;;) g(); }"),
    ("endless-loop", ".cpp", "void f() { while (true) { g(); } }"),
    ("endless-loop", ".cpp", "void f() { do { g(); } while (1); }"),
    ("endless-loop", ".cpp", "void f() { for (int i = 0;; ++i) { ::poll(&e, 1, test_bounds::kLook); } }"),
    ("endless-loop", ".sh", "while true; do make; done"),
    ("endless-loop", ".py", "while True:\n    look()\n"),
    ("polling-loop", ".cpp", "void f() { while (!ready.load(std::memory_order_acquire)) cpu_pause(); }"),
    ("polling-loop", ".cpp", "void f() { while (wire::load_acquire(word) != 7) { yield(); } }"),
    ("polling-loop", ".cpp", "void f() { do { yield(); } while (!done.load()); }"),
    ("polling-loop", ".cpp", "void f() { while (other.state() != 7) asm volatile(\"pause\"); }"),
    ("polling-loop", ".cpp", "void f() { while (!others_ready()) std::this_thread::yield(); }"),
    ("polling-loop", ".cpp", "void f() { while (device.busy()) {\n  }\n}"),
    ("polling-loop", ".sh", "until [[ -e file ]]; do :; done"),
    ("literal", ".cpp", "void f() { c.wait_for(lock, std::chrono::seconds{5}); }"),
    ("literal", ".cpp", "void f() { c.wait_for(lock, 5s); }"),
    ("literal", ".cpp", "void f() { device.wait_until(done, Clock::now() + 20ms); }"),
    ("literal", ".cpp", "void f() { const auto end = Clock::now() + std::chrono::milliseconds(100); }"),
    ("literal", ".cpp", "void f() { ::poll(&event, 1, 10'000); }"),
    ("literal", ".cpp", "constexpr auto kBound = 500ms;"),
    ("literal", ".hpp", "inline constexpr std::chrono::seconds kBound{10};"),
    ("literal", ".hpp", "bool appears(const Condition& c, std::chrono::milliseconds bound = std::chrono::seconds{3});"),
    ("impatient", ".cpp", "void f() { options.timeouts.admin = std::chrono::milliseconds(200); }"),
    ("impatient", ".cpp", "void f() { timeouts.post_progress = timeouts.admin = 1s; }"),
    ("impatient", ".cpp", "void f() { svp::Timeouts t; t.detach = 20ms; }"),
    ("impatient", ".cpp", "void f() { card.timeouts.hello = test_bounds::kExpires; }"),
    ("impatient", ".cpp", "void f() { card.timeouts.hello = some_value; }"),
    ("impatient", ".cpp", "void f() { options_.timeouts.request = milliseconds{2'000}; }"),
    ("impatient", ".cpp", "auto f() { return Timeouts{.admin = 1s}; }"),
    ("impatient", ".cpp", "void f() { options.timeouts.admin = 1s;  // bounded: by the end of the world\n}"),
    ("impatient", ".cpp", 'auto f() { return boot("loop_watchdog_ms=250"); }'),
    ("short-bound", ".hpp", "namespace test_bounds {\ninline constexpr std::chrono::seconds kProgram{60};\n}"),
    ("short-bound", ".hpp", "namespace test_bounds {\nconstexpr std::chrono::milliseconds kAnswer{20'000};  // bounded: by it\n}"),
    ("short-bound", ".hpp", "namespace campaign_bounds {\ninline constexpr std::chrono::seconds kSettle{5};\n}"),
    ("short-bound", ".hpp", "namespace test_bounds {\n}\nnamespace soak_bounds {\nconstexpr std::chrono::seconds kTrap = {5};\n}"),
    ("impatient", ".cpp", "void f() { options.timeout = std::chrono::nanoseconds(1); }"),
    ("impatient", ".cpp", "void f() { FlexAllocator allocator(source, {.timeout = test_bounds::kExpires}); }"),
    ("impatient", ".cpp", "void f() { log.period = kBringUpTakes; }"),
    ("unchecked-trigger", ".cpp", "namespace svp::campaign {\nvoid f() { (void)fault::FaultClient(*management).arm(spec); }\n}"),
    ("unchecked-trigger", ".cpp", "namespace svp::campaign {\nvoid f() { fault::FaultClient faults(*m);\n  value_or_throw(faults.arm(spec)); }\n}"),
    ("held-stream", ".cpp", "void f() { stream.LaunchHost([&] { open.wait(false);  // bounded: the test opens it\n  });\n}"),
    ("held-stream", ".cpp", "void f() { loop->post([&] {\n  opened.wait_for(bound);\n  }); }"),
    ("elapsed", ".cpp", "TEST(A, B) { EXPECT_LT(std::chrono::steady_clock::now() - start, test_bounds::kWork); }"),
    ("elapsed", ".cpp", "TEST(A, B) { ASSERT_TRUE(hal::now() - began < 100); }"),
    ("elapsed", ".cpp", "TEST(A, B) { const auto took = Clock::now() - begin; g(); EXPECT_LT(took, test_bounds::kWork); }"),
    ("elapsed", ".cpp", "TEST(A, B) { const bool counts = Clock::now() - begin < bound; EXPECT_FALSE(early && counts); }"),
    ("elapsed", ".cpp", "TEST(A, B) { const auto end = Clock::now();\n  EXPECT_LT(end - begin, bound); }"),
    ("elapsed", ".cpp", "TEST(A, B) { for (;;) { if (f() > end) break; worst = std::max(worst, hal::now() - at); }\n  EXPECT_LE(worst, 9u); }"),
    ("elapsed", ".cpp", "TEST(A, B) { std::chrono::nanoseconds took{Clock::now() - begin};\n  EXPECT_EQ(took.count() / 5, 0); }"),
    ("elapsed", ".cpp", "TEST(A, B) { if (Clock::now() - begun >= kStalled) ++stalls;\n  EXPECT_GT(stalls, 0u); }"),
    ("elapsed", ".cpp", "TEST(A, B) { if (!done || Clock::now() - begun >= kStall) { ADD_FAILURE() << 1; } }"),
    ("elapsed", ".cpp", "void f() { const auto took = Clock::now() - begin;\n  context.claim(Proof::Detected, \"a\", took < bound); }"),
    ("annotation", ".cpp", "TEST(A, B) { EXPECT_GE(Clock::now() - start, 1s);  // elapsed: never\n}"),
    ("annotation", ".cpp", "void f() { g();  // reached: there is no time-out here\n}"),
    ("annotation", ".cpp", "void f() { thread_.join();  // bounded: soon\n}"),
    ("annotation", ".cpp", "void f() { thread_.join();  // bounded:\n}"),
    ("annotation", ".cpp", "void f() { g();  // bounded: there is no wait on this line\n}"),
]

# Bounded waits, and what only looks like a wait.
ACCEPTED = [
    (".cpp", "void f() { changed.wait_until(lock, deadline, [&] { return done; }); }"),
    (".cpp", "void f() { channel_.wait(target, deadline); }"),
    (".cpp", "void f() { stream.LaunchHost(gate.passing()); stream.LaunchHost([&] { gate.pass(); }); }"),
    (".cpp", "TEST(A, B) { EXPECT_TRUE(held.expired()); }"),
    (".cpp", "void f() { thread_.join();  // bounded: the flag above ends its loop\n}"),
    (".cpp", "void f() {\n  // bounded: the flag above ends its loop,\n  // at once\n  thread_.join();\n}"),
    (".cpp", "// It may wait(lock) for ever, poll(events, 1, -1), ::pause(), sleep_for(5s).\nint x;"),
    (".cpp", 'const char* text = "::pause(); while (true) {} thread.join();";'),
    (".cpp", "void f() { ::poll(&event, 1, test_bounds::in_milliseconds(bound)); ::poll(&event, 1, 0); }"),
    (".cpp", "void f() { queue.poll(used); ::recv(fd, bytes, 8, MSG_DONTWAIT); ::flock(fd, LOCK_EX | LOCK_NB); }"),
    (".cpp", "void f() { ::waitpid(pid, &status, WNOHANG); io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &ts, 0); }"),
    (".cpp", "void f() { for (;;) { if (Clock::now() >= deadline) return; } }"),
    (".cpp", "void f() { while (!ready.load()) { if (hal::now() > end) return; } }"),
    (".cpp", "void f() { for (const auto end = soon(); !ready.load() && Clock::now() < end;) yield(); }"),
    (".cpp", "void f() { timer_arm(hart, at);\n  asm volatile(\"wfi\" ::: \"memory\");\n}"),
    (".cpp", "TEST(A, B) { EXPECT_LT(took, 5s); EXPECT_GE(took, std::chrono::seconds{1}); }"),
    (".cpp", "void f() { options.timeouts.admin = 10s; timeouts.post_progress = std::chrono::hours{24}; }"),
    (".cpp", "void f() { options.timeouts.admin = Timeouts{}.admin; options.timeouts.wedge_deaths = 3; }"),
    (".cpp", "void f() { options.timeouts.admin = 1s;  // reached: the emulator is stopped\n}"),
    (".cpp", "void f() {\n  // reached: the emulator is stopped\n  timeouts.admin = 1s;\n}"),
    (".cpp", "TEST(A, B) { ASSERT_LT(Clock::now(), end); if (Clock::now() - start > bound) return; }"),
    (".cpp", "TEST(A, B) { EXPECT_GE(hal::now() - began, 9);  // elapsed: under the WorkClock\n}"),
    (".cpp", "TEST(A, B) { const auto took = hal::now() - began;\n  EXPECT_GE(took, 9);  // elapsed: under the WorkClock\n}"),
    (".cpp", "TEST(A, B) { const auto took = Clock::now() - begin; print(took); }\nTEST(A, C) { EXPECT_LT(took, 5); }"),
    (".cpp", "TEST(A, B) { const auto left = end - Clock::now();\n  const bool came = wait_for_it(left); EXPECT_TRUE(came); }"),
    (".cpp", "void f() { options.timeout = test_bounds::kThread; options.timeout = Timeouts{}.quiesce; row = {.period = 7}; }"),
    (".cpp", "namespace svp::campaign {\nvoid f() { FaultClient(*m).arm(ScenarioContext::checked(spec)); context.arm(spec); }\n}"),
    (".cpp", "namespace svp {\nvoid f() { (void)fault::FaultClient(*management).arm(spec); }\n}"),
    (".cpp", 'auto f() { return boot("loop_watchdog_ms=0") + boot("loop_watchdog_ms=5000"); }'),
    (".cpp", "int Doorbells::sleep(int fd) { return 1; }\nssize_t File::read(int x) { return 0; }"),
    (".sh", "deadline=$((SECONDS + 2))\nwhile look; ((SECONDS < deadline)); do pause_a_little; done\nsleep 60 &\n# wait\n"),
    (".sh", "while read -r line; do echo \"$line\"; done <file\nwhile (($#)); do shift; done\nflock -w 5 9"),
    (".py", "import subprocess\nsubprocess.run(['make'], timeout=60)\nprint(', '.join(words))"),
    (".cpp", "void f() { if (auto paused = pause(); !paused) return; card.pause(); }"),
    (".cpp", "void f() { const bool sent = ::kill(child, SIGKILL) == 0; if (::kill(child, 0) != 0) return; machine.kill(); }"),
    (".cpp", "bool f() { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }\nvoid A::kill() { kill(); }"),
    (".cpp", "void f() { const long sent =\n    invoke(SYS_pidfd_send_signal, child.pidfd, SIGKILL); }"),
    (".cpp", "void f() {\n  // bounded: its output has ended, which its exit closes\n  ::waitpid(child, &status, 0);\n}"),
    (".txt", "wait for ever; sleep 5; for (;;) {}"),
]


def run(*arguments):
    return subprocess.run([*checker, *map(str, arguments)], capture_output=True, text=True, timeout=280, check=False)


def plant(folder, name, texts):
    """A file for each (part of the tree, suffix, text); one run of the checker looks at all."""
    files = []
    for number, (part, suffix, text) in enumerate(texts):
        files.append(Path(folder) / part / f"{name}{number}{suffix}")
        files[-1].parent.mkdir(exist_ok=True)
        files[-1].write_text(text + "\n")
    return files


def part_of(rule):
    """What is a defect of the product alone is planted there."""
    return "host_driver" if rule == "weak-end" else "tests"


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        refused = plant(folder, "refused", [(part_of(rule), suffix, text) for rule, suffix, text in REFUSED])
        result = run(*refused)
        for planted, (rule, _, text) in zip(refused, REFUSED):
            lines = [line for line in result.stdout.splitlines() if planted.name + ":" in line]
            if result.returncode != 1 or not any(f": {rule}: " in line for line in lines):
                failures.append(f"not refused as {rule}: {text!r}\n" + "\n".join(lines) + result.stderr)
        accepted = plant(folder, "accepted", [("tests", suffix, text) for suffix, text in ACCEPTED])
        result = run(*accepted)
        if result.returncode != 0 or result.stdout:
            failures.append(f"refused, and should not be:\n{result.stdout}{result.stderr}")
    rules = {line.split()[0] for line in run("--rules").stdout.splitlines()}
    if rules != {rule for rule, _, _ in REFUSED}:
        failures.append(f"rules without a plant, or plants without a rule: {rules ^ {rule for rule, _, _ in REFUSED}}")
    tree = run()
    if tree.returncode != 0:
        failures.append("the tree has waits without a bound:\n" + tree.stdout + tree.stderr)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
