// SPDX-License-Identifier: Apache-2.0
//
// A process that owns a function of a long-lived card, and a child that keeps its window and doorbells for longer than
// the function is theirs. It prints "child <pid>" when both are at work, and waits to be killed. The child writes
// random words all over the window all the time; when its standard input ends, its window is expected to be emptied
// (retired), and it then marks some pages, writes everywhere else for the given time, and prints "kept" when the marks
// are as it wrote them, "changed at <offset>" when not. It ends then, or with the reader of its output, whichever is
// first.
//
//   scribbler <card folder> <PF|VFn> <seconds>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/local_socket.hpp"
#include "shared/version.hpp"
#include "shared/window.hpp"
#include "tests/bounds.hpp"
#include "tests/conformance/workbench.hpp"
#include "tests/device/cards/helper_program.hpp"
#include "tests/support/bytes.hpp"

namespace {

using namespace std::chrono_literals;
using svp::value_or_throw;
using svp::test::require;
using svp::test::say;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPage = 4096;
constexpr auto kBetweenBursts = test_bounds::kScribblePause;
constexpr unsigned kPagesPerBurst = 32;
constexpr auto kEmptied = test_bounds::kAnswer;

// Window and doorbells as the broker hands them out, without a driver in between; the connection stays open.
struct Possession {
  svp::UniqueFd connection;
  svp::Grant grant;
  std::vector<svp::UniqueFd> descriptors;

  Possession(const char* folder_path, const char* function) {
    const svp::UniqueFd folder{::open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    auto socket = svp::connect_in(folder.get(), svp::kSocketName, test_bounds::kConnection);
    require(socket.has_value(), "no connection to the broker");
    connection = *std::move(socket);
    const svp::HelloRequest hello{wire::kAbiVersion, value_or_throw(svp::parse_function_choice(function))};
    require(svp::send_message(connection.get(), encode(svp::BrokerRequest(hello))), "the broker does not listen");
    pollfd event{connection.get(), POLLIN, 0};
    (void)::poll(&event, 1, test_bounds::in_milliseconds(test_bounds::kThread));
    auto received = svp::receive_message(connection.get(), svp::kMaxBrokerMessage, svp::kGrantDescriptors);
    grant = std::get<svp::Grant>(value_or_throw(svp::parse_broker_reply(received.text)));
    descriptors = std::move(received.descriptors);
  }
  svp::UniqueFd duplicate(std::size_t which) const {
    return svp::UniqueFd{::fcntl(descriptors[which].get(), F_DUPFD_CLOEXEC, 0)};
  }
};

class Scribbler {
 public:
  Scribbler(std::span<std::byte> window, int doorbell) : window_(window), doorbell_(doorbell) {}

  // Where only the card would write, were the window still its: nothing of that is written by us.
  bool left_alone(std::uint64_t page) const {
    const std::uint64_t at = page * kPage;
    for (const wire::Block& block :
         {wire::kHeaderBlock, wire::kFifoToHost, wire::kStartedSequences, wire::kAdminReplies, wire::kEvents}) {
      if (at >= block.offset / kPage * kPage && at < block.end()) return true;
    }
    if (wire::kCompletions.contains(at, kPage)) return page % 2 == 1;
    return at + kPage == window_.size();
  }

  // A few pages in turn, so that all are written, and a ring of the doorbell.
  void burst() {
    const std::uint64_t pages = window_.size() / kPage;
    for (unsigned i = 0; i < kPagesPerBurst; ++i) {
      // Control blocks, rings and FIFOs are few among the pages of host memory: every other page is one of them.
      next_ = (next_ + 1) % pages;
      scribble(i % 2 == 0 ? next_ : random_() % (wire::kHostMemoryOffset / kPage));
    }
    const std::uint64_t anything = random_();
    (void)!::write(doorbell_, &anything, sizeof anything);  // full: reset level enough
  }

  bool emptied() const {
    return svp::test::all_bytes_are(window_.first(kPage), std::byte{0}) &&
           svp::test::all_bytes_are(window_.last(kPage), std::byte{0});
  }
  void mark() {
    for_each_left_alone([](std::uint64_t at, volatile std::uint64_t& word) { word = mark_of(at); });
  }
  // The first place that is not as marked; the window's size when there is none.
  std::uint64_t first_changed() {
    std::uint64_t first = window_.size();
    for_each_left_alone([&](std::uint64_t at, const volatile std::uint64_t& word) {
      if (word != mark_of(at)) first = std::min(first, at);
    });
    return first;
  }

 private:
  static std::uint64_t mark_of(std::uint64_t at) { return at * 0x9E3779B97F4A7C15u ^ 0x5A5A; }
  volatile std::uint64_t& word(std::uint64_t at) { return *reinterpret_cast<std::uint64_t*>(window_.data() + at); }
  void scribble(std::uint64_t page) {
    if (left_alone(page)) return;
    for (int i = 0; i < 8; ++i) word(page * kPage + random_() % (kPage / 8) * 8) = random_();
  }
  template <typename Visit>
  void for_each_left_alone(Visit visit) {
    for (std::uint64_t page = 0; page < window_.size() / kPage; ++page) {
      if (!left_alone(page)) continue;
      for (std::uint64_t at = page * kPage; at < (page + 1) * kPage; at += 8) visit(at, word(at));
    }
  }

  std::span<std::byte> window_;
  int doorbell_;
  std::mt19937_64 random_{static_cast<std::uint64_t>(::getpid())};
  std::uint64_t next_ = 0;
};

bool input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char bytes[64];
  // bounded: poll() said that there is something
  return ::poll(&input, 1, 0) > 0 && ::read(STDIN_FILENO, bytes, sizeof bytes) <= 0;
}
bool nobody_reads() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

[[noreturn]] void be_the_child(Scribbler scribbler, std::chrono::seconds how_long) {
  while (!input_ended()) {
    if (nobody_reads()) ::_exit(1);
    scribbler.burst();
    std::this_thread::sleep_for(kBetweenBursts);  // bounded: its rhythm; stdin or the time ends the loop
  }
  const auto limit = Clock::now() + kEmptied;
  while (!scribbler.emptied()) {
    if (Clock::now() > limit || nobody_reads()) {
      say("the window is not emptied");
      ::_exit(1);
    }
    std::this_thread::sleep_for(kBetweenBursts);  // bounded: its rhythm; stdin or the time ends the loop
  }
  scribbler.mark();
  std::uint64_t bursts = 0;
  const double before = processor_seconds();
  for (const auto end = Clock::now() + how_long; Clock::now() < end; ++bursts) {
    if (nobody_reads()) ::_exit(1);
    scribbler.burst();
    std::this_thread::sleep_for(kBetweenBursts);  // bounded: its rhythm; stdin or the time ends the loop
  }
  const double used = processor_seconds() - before;
  if (const std::uint64_t at = scribbler.first_changed(); scribbler.left_alone(at / kPage)) {
    say("changed at {}", at);
  } else {
    say("kept after {} bursts in {} s with {:.2f} s of processor time", bursts, how_long.count(), used);
  }
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    const Possession possession(argv[1], argv[2]);
    const std::uint64_t bytes = possession.grant.window_bytes;
    void* const mapping =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, possession.descriptors[0].get(), 0);
    require(mapping != MAP_FAILED, "the window cannot be mapped");
    // In full use until the end: rings set up, blocks done, a kernel's memory held.
    svp::DeviceOptions options;
    options.exit_fd = possession.duplicate(3);
    const auto device = value_or_throw(svp::Device::attach(
        {possession.grant.slot, bytes, possession.duplicate(0), possession.duplicate(1), possession.duplicate(2)},
        std::move(options)));
    const svp::test::Workbench bench(*device);
    const auto block = svp::test::Workbench::dma(bench.host(0), bench.tensor(0), 1 * wire::kMiB);
    require(bench.run(block).outcome == wire::Outcome::Ok, "the function does not work");
    const pid_t child = ::fork();
    if (child == 0) {
      be_the_child(Scribbler({static_cast<std::byte*>(mapping), bytes}, possession.descriptors[1].get()),
                   std::chrono::seconds(std::atol(argv[3])));
    }
    say("child {}", child);
    for (;;) ::pause();  // bounded: its parent test kills it
  } catch (const std::exception& error) {
    say("error {}", error.what());
    return 3;
  }
}
