// SPDX-License-Identifier: Apache-2.0
//
// A process that owns a function of a long-lived card and does with it what its last argument names. It prints
// "attached <function> slot <n>", then whatever the command says; on an error "error <text>" and exit code 3. A "loop"
// never ends by itself: it prints "working" when it is in full swing, and is killed. The others end when their standard
// input does.
//
//   tenant <card folder> <PF|VF|VFn> attach|compute|compute-until-told|dma-loop|kernel-loop|admin-loop|fork-and-die|look|until-card-ends|share-event
//   tenant <card folder> <PF|VF|VFn> event-loop
//   tenant <card folder> <PF|VF|VFn> wait-loop:<an event of another process, as share-event says it>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/discovery/attach.hpp"
#include "host_driver/discovery/attached_source.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/device/cards/event_text.hpp"
#include "tests/device/cards/helper_program.hpp"
#include "tests/support/bytes.hpp"

namespace {

using svp::value_or_throw;
using svp::test::require;
using svp::test::say;
using svp::test::Workbench;

void wait_for_input_end() {
  char bytes[64];
  // bounded: its parent test closes the pipe, or ends and it closes
  while (::read(STDIN_FILENO, bytes, sizeof bytes) > 0) {
  }
}

std::vector<std::byte> kernel_image(const char* name) {
  return svp::test::kernel_image(value_or_throw(svp::find_firmware()), name);
}

bool input_has_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

// Adds random numbers on the card, `rounds` times or until the input ends (0), and holds each result against the golden
// model.
void compute(std::unique_ptr<svp::Device> device, int rounds) {
  constexpr std::int64_t kRows = 256, kColumns = 64;  // one stick per row: the device layout is the plain one
  constexpr std::size_t kCount = kRows * kColumns, kBytes = kCount * sizeof(std::uint16_t);
  svp::Runtime runtime(std::move(device));
  const auto folder = value_or_throw(svp::find_firmware()).parent_path() / "kernels";
  const auto kernel = svp::Kernel::load(folder / "add.img", folder / "add.json");
  svp::DimensionExtents extents;
  const auto& dimensions = kernel->metadata().dimensions;
  for (std::size_t d = 0; d < dimensions.size(); ++d) extents[dimensions[d]] = d == 0 ? kRows : kColumns;
  svp::ExecutionPlan plan({svp::Job(svp::CompiledKernel(kernel, extents))});
  svp::FlexStream& stream = runtime.default_stream();
  plan.load(runtime, stream);
  std::array<std::vector<std::uint16_t>, 4> data;  // a, b, the card's sum, the golden sum
  for (auto& values : data) values.resize(kCount);
  std::array<svp::Argument, 3> arguments;
  for (auto& argument : arguments)
    argument = {.allocation = runtime.allocator().allocate(kBytes), .shape = {kRows, kColumns}};
  std::mt19937 random(static_cast<unsigned>(::getpid()));
  std::normal_distribution<float> normal;
  int round = 1;
  for (; rounds == 0 ? !input_has_ended() : round <= rounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      std::ranges::generate(data[i], [&] { return wire::dl16_from_fp32(normal(random)); });
      stream.Launch(svp::Job::to_device(data[i].data(), arguments[i].allocation, kBytes), {});
    }
    stream.Launch(plan.jobs()[0], arguments);
    stream.Launch(svp::Job::from_device(data[2].data(), arguments[2].allocation, kBytes), {});
    stream.Synchronize();
    svp::golden::add_dl16(data[0], data[1], data[3]);
    require(data[2] == data[3], "the card's sum is not the golden model's");
    if (round == 1) say("working");
  }
  say("computed {} rounds", round - 1);
}

// Keeps a stream full with blocks of one kind. Never returns.
[[noreturn]] void flood(const Workbench& bench, const wire::ControlBlock& block) {
  constexpr std::size_t kBatch = 8;
  static svp::test::CompletionRecorder endings;
  const std::vector<svp::ControlBlockRequest> requests(kBatch, {&block, &endings});
  bool told = false;
  for (;;) {
    const std::size_t taken = value_or_throw(bench.device().submit(0, requests));
    if (taken == 0) {
      if (!std::exchange(told, true)) say("working");
      (void)bench.device().wait_until([&] { return bench.device().outstanding(0) < 64; }, svp::test::soon());
    }
  }
}

void dma_loop(svp::Device& device) {
  const Workbench bench(device);
  std::memset(device.host_memory().data(), 0xa5, Workbench::kRegionBytes);
  flood(bench, Workbench::dma(bench.host(0), bench.tensor(0), Workbench::kRegionBytes));
}

// A kernel that does not end before its watchdog, and then the next one.
void kernel_loop(svp::Device& device) {
  const Workbench bench(device);
  const auto spin = kernel_image("spin");
  bench.load(0, spin);
  const auto all_cores = (std::uint64_t{1} << device.config().cores) - 1;
  const auto block = bench.compute(0, spin.size(), all_cores, 1'000'000);
  svp::test::CompletionRecorder endings;
  const svp::ControlBlockRequest request{&block, &endings};
  require(value_or_throw(device.submit(0, {&request, 1})) == 1, "the stream took no kernel");
  // Started: its sequence number, the second after that of the load, is published before its first instruction.
  while (svp::test::started_sequence(device, 0) < 2) (void)device.poll();
  say("working");
  while (device.wait_until([] { return false; }, svp::test::soon()) == svp::WaitStatus::TimedOut) {
  }
}

void admin_loop(svp::Device& device) {
  for (bool told = false;; told = true) {  // bounded: its parent test kills it; every call is bounded
    const auto region = value_or_throw(device.acquire_region(svp::RegionType::Tensor, Workbench::kRegionBytes));
    const auto stream = value_or_throw(device.open_stream(svp::StreamPriority::High));
    value_or_throw(device.close_stream(stream));
    value_or_throw(device.release_region(region));
    if (!told) say("working");
  }
}

// The child keeps socket, window and doorbells; the owner is gone all the same.
void fork_and_die() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();  // bounded: its parent test kills it
  }
  say("child {}", child);
  wait_for_input_end();
  ::_exit(0);
}

bool all_zero(std::span<const std::byte> bytes) { return svp::test::all_bytes_are(bytes, std::byte{0}); }

// What an earlier owner may have left: in the window, and in memory that it had and that this one gets now.
void look(svp::Device& device) {
  require(all_zero(device.host_memory()), "host memory is not zero");
  const auto* window = svp::test::window_of(device);
  for (const auto& block : {wire::kControlBlocks, wire::kCompletions, wire::kReservedBlock}) {
    require(all_zero({window + block.offset, block.bytes}), "a block of the window is not zero");
  }
  const auto statistics = value_or_throw(device.card_statistics()).values.stats;
  require(statistics.completed == 0 && statistics.launches == 0 && statistics.bytes_to_device == 0,
          "statistics are not zero");
  const Workbench bench(device);
  for (const auto& at : {bench.tensor(0), bench.program(0)}) {
    std::memset(device.host_memory().data(), 0xff, Workbench::kRegionBytes);
    const auto end = bench.run(Workbench::dma(at, bench.host(0), Workbench::kRegionBytes));
    require(end.outcome == wire::Outcome::Ok, "the region cannot be read");
    require(all_zero(device.host_memory().first(Workbench::kRegionBytes)), "a region is not zero");
  }
  say("clean");
}

void until_card_ends(const svp::Device& device) {
  say("working");
  (void)const_cast<svp::Device&>(device).wait_until([] { return false; }, svp::test::soon());
  const auto failure = device.failure();
  require(failure.has_value(), "the card did not end");
  say("failed {}", svp::describe(*failure));
}

// An event that is signalled when the input has ended, as bytes for other processes.
void share_event(svp::AttachedFunction function, const char* card) {
  auto source = svp::source_of(function, card, {});
  svp::Runtime runtime(std::move(function.device), {}, std::move(source));
  svp::FlexStream& stream = runtime.next_stream(svp::StreamPriority::Low);
  stream.LaunchHost([] { wait_for_input_end(); });
  const spyre::SharedEvent event = stream.Record()->share();
  say("event {}", svp::test::text_of(event));
  stream.Synchronize();
  // Its owner stays until it has been seen: the end of the function revokes what it granted.
  say("signalled");
  for (;;) ::pause();  // bounded: its parent test kills it
}

// Streams that wait for the default stream, for each other and, when there is one, for an event of another process,
// beside replays of a capture: wherever it is killed, waits, grants and calls are under way. Never returns.
[[noreturn]] void wait_loop(svp::AttachedFunction function, const char* card,
                            const std::optional<spyre::SharedEvent>& awaited) {
  constexpr std::uint64_t kBytes = 8 * wire::kMiB;
  auto source = svp::source_of(function, card, {});
  svp::Runtime runtime(std::move(function.device), {}, std::move(source));
  svp::FlexStream& base = runtime.default_stream();
  std::array<svp::FlexStream*, 4> streams;
  for (auto& stream : streams) stream = &runtime.next_stream(svp::StreamPriority::Low);
  const auto memory = runtime.allocator().allocate(kBytes);
  const svp::Job fill = svp::Job::fill(memory, kBytes, 0x1234'5678'9abc'def0);
  streams[2]->BeginCapture();
  for (int i = 0; i < 3; ++i) streams[2]->Launch(fill, {});
  const auto captured = streams[2]->EndCapture();
  if (awaited) streams[3]->Wait(*awaited);
  streams[3]->Launch(fill, {});
  for (unsigned round = 0;; ++round) {  // bounded: its parent test kills it; every wait is bounded by the card
    for (int i = 0; i < 3; ++i) base.Launch(fill, {});
    streams[0]->Wait(base.Record());
    streams[1]->Wait(streams[0]->Record());
    streams[2]->Wait(streams[1]->Record());
    streams[2]->Launch(*captured);
    base.Wait(streams[2]->Record());
    if (round == 2) say("working");
    if (round % 4 == 3) base.Synchronize();
  }
}

void act(const std::string& command, std::unique_ptr<svp::Device> device) {
  const std::map<std::string, void (*)(svp::Device&)> commands{
      {"attach",
       [](svp::Device&) {
         say("working");
         wait_for_input_end();
       }},
      {"dma-loop", dma_loop},
      {"kernel-loop", kernel_loop},
      {"admin-loop", admin_loop},
      {"fork-and-die", [](svp::Device&) { fork_and_die(); }},
      {"look", look},
      {"until-card-ends", [](svp::Device& d) { until_card_ends(d); }},
  };
  if (command == "compute") return compute(std::move(device), 50);
  if (command == "compute-until-told") return compute(std::move(device), 0);
  const auto found = commands.find(command);
  if (found == commands.end()) throw std::runtime_error("unknown command " + command);
  found->second(*device);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    auto function = value_or_throw(svp::attach(argv[1], value_or_throw(svp::parse_function_choice(argv[2]))));
    say("attached {} slot {}", function.function, function.device->config().slot);
    if (std::string_view(argv[3]) == "share-event") {
      share_event(std::move(function), argv[1]);
      return 0;
    }
    if (std::string_view(argv[3]) == "event-loop") wait_loop(std::move(function), argv[1], std::nullopt);
    constexpr std::string_view kWaitLoop = "wait-loop:";
    if (std::string_view(argv[3]).starts_with(kWaitLoop)) {
      wait_loop(std::move(function), argv[1], svp::test::event_of(std::string_view(argv[3]).substr(kWaitLoop.size())));
    }
    act(argv[3], std::move(function.device));
  } catch (const std::exception& error) {
    say("error {}", error.what());
    return 3;
  }
  return 0;
}
