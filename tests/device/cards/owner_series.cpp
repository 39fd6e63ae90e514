// SPDX-License-Identifier: Apache-2.0
//
// Owners of one function, one after the other, each a process of its own: looks whether anything of an earlier owner is
// left, lets a stream wait for stream 0, works, leaves its own pattern everywhere, and ends by itself or (a third of
// them) by SIGKILL at a random moment. Prints "owners <n>" now and then, at the end "ended <n> owners, <k> killed"; on
// an error "error <text>", exit code 3.
//
//   owner_series <card folder> <function> <owners> <seed>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/discovery/attach.hpp"
#include "tests/conformance/workbench.hpp"
#include "tests/device/cards/helper_program.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/process_end.hpp"

namespace {

using svp::value_or_throw;
using svp::test::require;
using svp::test::Workbench;

constexpr std::uint64_t kLookedAt = 64 * wire::kKiB;  // of each region
constexpr unsigned kReportEvery = 25;

bool all_zero(std::span<const std::byte> bytes) { return svp::test::all_bytes_are(bytes, std::byte{0}); }

// ---- an owner -------------------------------------------------------------------------------------------------------

void expect_nothing_of_the_last(svp::Device& device, const Workbench& bench) {
  require(all_zero(device.host_memory()), "host memory is not zero");
  const auto* window = svp::test::window_of(device);
  for (const auto& block : {wire::kControlBlocks, wire::kCompletions}) {
    // The words of this driver's own bring-up lie elsewhere.
    require(all_zero({window + block.offset, block.bytes}), "a block of the window is not zero");
  }
  const auto statistics = value_or_throw(device.card_statistics()).values.stats;
  require(statistics.completed == 0 && statistics.launches == 0 && statistics.bytes_to_device == 0,
          "statistics are not zero");
  for (const auto& at : {bench.tensor(0), bench.program(0)}) {
    std::memset(device.host_memory().data(), 0xff, kLookedAt);
    require(bench.run(Workbench::dma(at, bench.host(0), kLookedAt)).outcome == wire::Outcome::Ok,
            "the region cannot be read");
    require(all_zero(device.host_memory().first(kLookedAt)), "a region is not zero");
  }
}

void leave_the_pattern(svp::Device& device, const Workbench& bench) {
  std::ranges::fill(device.host_memory(), std::byte{0x5a});
  for (const auto& at : {bench.tensor(0), bench.program(0)}) {
    require(bench.run(Workbench::dma(bench.host(0), at, kLookedAt)).outcome == wire::Outcome::Ok,
            "the region cannot be written");
  }
}

// Nobody signals what it waits for: the wait stands from now on, and is there when the owner ends or is killed.
void wait_for_stream_zero(svp::Device& device, svp::test::CompletionRecorder& ends) {
  const auto stream = value_or_throw(device.open_stream(svp::StreamPriority::Low));
  const auto wait = Workbench::event_wait(0, device.stream_incarnation(0), 1);
  const svp::ControlBlockRequest request{&wait, &ends};
  require(value_or_throw(device.submit(stream, {&request, 1})) == 1, "the stream took no wait");
}

int own(const std::string& folder, const std::string& function, int report) {
  svp::test::CompletionRecorder ends;
  try {
    const auto owned = value_or_throw(svp::attach(folder, value_or_throw(svp::parse_function_choice(function))));
    [[maybe_unused]] const auto told = ::write(report, "a", 1);
    const Workbench bench(*owned.device);
    expect_nothing_of_the_last(*owned.device, bench);
    wait_for_stream_zero(*owned.device, ends);
    leave_the_pattern(*owned.device, bench);
    return 0;
  } catch (const std::exception& error) {
    fmt::print("error {}\n", error.what());
    std::fflush(stdout);
    return 3;
  }
}

// ---- their parent, which has one thread and no card -----------------------------------------------------------------

struct Ended {
  bool was_owner = false;
  bool killed = false;
};

// Killed `lifetime` after it has attached, or, when it dies young, after its begin; never when `lifetime` is negative.
Ended one_owner(const std::string& folder, const std::string& function, std::chrono::microseconds lifetime,
                bool young) {
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC) == 0, "no descriptor left");
  const svp::UniqueFd attached{ends[0]};
  svp::UniqueFd report{ends[1]};
  const pid_t child = ::fork();
  require(child >= 0, "no process left");
  if (child == 0) ::_exit(own(folder, function, report.get()));
  report.reset();
  char byte;
  const auto told = [&] { return ::read(attached.get(), &byte, 1) == 1; };  // bounded: it attaches in time, or ends
  bool was_owner = !young && told();
  if (lifetime.count() >= 0) {
    std::this_thread::sleep_for(lifetime);  // bounded: the random moment
    svp::test::send_signal(child, SIGKILL);
  }
  int status = 0;
  // bounded: every call of its own is bounded, and it ends with its last one
  require(::waitpid(child, &status, 0) == child, "the child is gone");
  if (young) was_owner = told();
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  require(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "an owner did not end as it should");
  return {was_owner, killed};
}

void series(const std::string& folder, const std::string& function, unsigned owners, unsigned seed) {
  // Long enough that some have ended by themselves.
  constexpr int kLongestLifetimeMicroseconds = 10'000;
  std::mt19937 random(seed);
  unsigned killed = 0;
  for (unsigned done = 0; done < owners;) {
    const bool kill = random() % 5 < 2;  // some are too late
    const std::chrono::microseconds lifetime(kill ? static_cast<int>(random() % kLongestLifetimeMicroseconds) : -1);
    const Ended ended = one_owner(folder, function, lifetime, kill && random() % 4 == 0);
    if (!ended.was_owner) continue;
    killed += ended.killed ? 1 : 0;
    if (++done % kReportEvery == 0) {
      fmt::print("owners {}\n", done);
      std::fflush(stdout);
    }
  }
  fmt::print("ended {} owners, {} killed\n", owners, killed);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    series(argv[1], argv[2], static_cast<unsigned>(std::stoul(argv[3])), static_cast<unsigned>(std::stoul(argv[4])));
  } catch (const std::exception& error) {
    fmt::print("error {}\n", error.what());
    return 3;
  }
  return 0;
}
