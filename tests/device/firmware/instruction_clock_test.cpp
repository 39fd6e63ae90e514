// SPDX-License-Identifier: Apache-2.0
// The firmware's self-test is replayed bit for bit when the emulator counts instructions (-icount): one hart, a clock
// that only instructions move on, and nothing from outside. The boot stops for ever behind POST code "ready" (boot word
// stop_at), so that nothing but the time until which the hart sleeps changes any more when it is looked at. What the
// host sends a card comes at the host's time: a card at work is not replayed by this, but it works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "host_driver/debug/elf_image.hpp"
#include "host_driver/frontend/context.hpp"
#include "host_driver/program/device_program.hpp"
#include "qemu/card.hpp"
#include "qemu/machine.hpp"
#include "shared/array.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/dl16.hpp"
#include "shared/memory_order.hpp"
#include "shared/post_codes.hpp"
#include "shared/window.hpp"
#include "tests/bounds.hpp"
#include "tests/support/expected_array.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kBound = test_bounds::kProbe;
constexpr std::uint64_t kWindowBytes = 16 * qemu::kMiB;
constexpr unsigned kSlots = 3;  // M, PF, VF 1
// Image, stacks, page tables and persistent memory of the firmware (firmware/platform/virt/link.ld).
constexpr std::uint64_t kFirmwareMemory = 0x8000'0000;
constexpr std::uint64_t kFirmwareBytes = 48 * qemu::kMiB;

using Bytes = std::vector<std::byte>;

struct Boot {
  std::string console;
  std::vector<Bytes> windows;
  Bytes memory;  // of the firmware: all of its data and stacks, the events, the fatal record, persistent memory
};

Bytes window_of(const qemu::Machine& machine, unsigned slot) {
  const auto handle = machine.slot(slot);
  if (!handle) return {};
  void* mapped = ::mmap(nullptr, kWindowBytes, PROT_READ, MAP_SHARED, handle->window_fd(), 0);
  if (mapped == MAP_FAILED) return {};
  const auto* bytes = static_cast<const std::byte*>(mapped);
  Bytes copy(bytes, bytes + kWindowBytes);
  ::munmap(mapped, kWindowBytes);
  return copy;
}

// The console shows a step before the windows do.
void await_post_codes(const qemu::Machine& machine) {
  const auto end = std::chrono::steady_clock::now() + kBound;
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    const auto handle = machine.slot(slot);
    ASSERT_TRUE(handle) << qemu::to_string(handle.error());
    void* mapped = ::mmap(nullptr, kWindowBytes, PROT_READ, MAP_SHARED, handle->window_fd(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const auto& header = *static_cast<const wire::WindowHeader*>(mapped);
    const auto shown = [&] { return wire::load_acquire(header.post_code) == std::uint64_t(wire::PostCode::Ready); };
    while (!shown() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(shown()) << "slot " << slot;
    ::munmap(mapped, kWindowBytes);
  }
}

qemu::MachineOptions options_for(const std::string& words, const std::vector<std::string>& extra,
                                 const std::filesystem::path& array = {}) {
  qemu::MachineOptions options;
  options.firmware = SPYRE_DEFAULT_FIRMWARE;
  options.slots.assign(kSlots, {kWindowBytes});
  options.boot_arguments = words;
  options.extra_arguments = extra;
  options.array = array;
  return options;
}

// Until POST code "ready"; everything is read with the harts stopped.
Boot boot(const std::string& words, const std::vector<std::string>& extra, const std::filesystem::path& array = {}) {
  auto machine = qemu::Machine::start(options_for(words, extra, array));
  if (!machine) {
    ADD_FAILURE() << qemu::to_string(machine.error());
    return {};
  }
  EXPECT_TRUE(machine->wait_console("ready\n", kBound)) << machine->console();
  await_post_codes(*machine);
  EXPECT_TRUE(machine->stop());
  Boot seen{.console = machine->console(), .windows = {}, .memory = {}};
  for (unsigned slot = 0; slot < kSlots; ++slot) seen.windows.push_back(window_of(*machine, slot));
  const auto memory = machine->read_memory(kFirmwareMemory, kFirmwareBytes);
  if (!memory) {
    ADD_FAILURE() << qemu::to_string(memory.error());
    return seen;
  }
  seen.memory = *memory;
  return seen;
}

const std::vector<std::string> kCounted = {"-icount", "shift=2,sleep=off"};

std::string stop_at_ready() {
  return std::string(wire::boot::kStopAt) + "=" + std::to_string(static_cast<unsigned>(wire::PostCode::Ready));
}
std::string self_test_words() { return "vfs=1 " + std::string(wire::boot::kSelfTest) + "=1 " + stop_at_ready(); }

// The addresses of the 64-bit words that differ.
std::vector<std::uint64_t> different_words(const Bytes& one, const Bytes& other) {
  std::vector<std::uint64_t> words;
  for (std::size_t at = 0; at + 8 <= std::min(one.size(), other.size()); at += 8) {
    if (std::memcmp(one.data() + at, other.data() + at, 8) != 0) words.push_back(at);
  }
  return words;
}

// The hart that stands still in stop_at sleeps a second at a time. When it is looked at is the host's choice: until
// when it sleeps and whether it does (HartLocal's armed_deadline and waypoint, three words apart) is all that may
// differ.
void expect_no_difference_but_the_sleep(const std::vector<std::uint64_t>& words) {
  constexpr std::uint64_t kApart = 24;
  EXPECT_LE(words.size(), 2u) << ::testing::PrintToString(words);
  if (words.size() == 2) EXPECT_EQ(words[1] - words[0], kApart) << std::hex << words[0] << " " << words[1];
}

void expect_the_same(const Boot& one, const Boot& other) {
  EXPECT_EQ(one.console, other.console);
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    EXPECT_THAT(different_words(one.windows[slot], other.windows[slot]), IsEmpty()) << "window of slot " << slot;
  }
  expect_no_difference_but_the_sleep(different_words(one.memory, other.memory));
}

TEST(InstructionClock, ASelfTestIsReplayedBitForBit) {
  const Boot first = boot(self_test_words(), kCounted);
  EXPECT_THAT(first.console, HasSubstr("self-test"));
  ASSERT_EQ(first.memory.size(), kFirmwareBytes);
  for (int again = 0; again < 3; ++again) expect_the_same(first, boot(self_test_words(), kCounted));
}

// The comparison can fail.
TEST(InstructionClock, ABootWithoutTheSelfTestIsAnotherOne) {
  const Boot with = boot(self_test_words(), kCounted);
  const Boot without = boot("vfs=1 " + stop_at_ready(), kCounted);
  EXPECT_NE(with.console, without.console);
  EXPECT_GT(different_words(with.memory, without.memory).size(), 2u);
}

TEST(InstructionClock, ABootThatFailsEndsAtTheSameInstructions) {
  const auto fail = [] {
    const auto machine = qemu::Machine::start(options_for("vfs=1 sole=9", kCounted));
    if (!machine) return qemu::to_string(machine.error());
    EXPECT_TRUE(machine->wait_exit(kBound));
    return machine->console();
  };
  const std::string first = fail();
  EXPECT_THAT(first, HasSubstr("PANIC hart 0: the sole function does not exist"));
  EXPECT_EQ(fail(), first);
}

// ---- with the compute array -----------------------------------------------------------------------------------------

// The plugin's path. Empty: the build has none.
std::filesystem::path array() { return svp::value_or_throw(svp::find_array()).plugin; }

// Where a symbol of the firmware lies in Boot::memory.
std::size_t place_of(std::string_view symbol) {
  const auto image = svp::value_or_throw(svp::ElfImage::open(SPYRE_DEFAULT_FIRMWARE));
  return image.address_of(symbol).value() - kFirmwareMemory;
}

// What the array has said to the firmware's greeting.
std::uint32_t array_version_of(const Boot& boot) {
  std::uint32_t version = 0;
  const std::size_t at = place_of("riscv_array_hello") + offsetof(wire::array::Hello, answer);
  std::memcpy(&version, boot.memory.data() + at, sizeof version);
  return version;
}

// Also where the array has chosen random numbers for the windows (docs/array.md): none of them is left.
TEST(InstructionClock, ASelfTestBesideTheComputeArrayIsReplayedBitForBit) {
  const Boot first = boot(self_test_words(), kCounted, array());
  EXPECT_THAT(first.console, HasSubstr("self-test"));
  ASSERT_EQ(first.memory.size(), kFirmwareBytes);
  EXPECT_EQ(array_version_of(first), svp::test::cards_have_array() ? wire::array::kVersion : 0);
  expect_the_same(first, boot(self_test_words(), kCounted, array()));
}

// 64 sticks: the compute array has them where the card has one.
svp::ExecutionPlan addition(std::uint32_t elements) {
  svp::test::ProgramBuilder builder;
  builder.add(svp::test::dense_operation(builder, wire::program::Opcode::Add, elements, 2));
  return svp::ExecutionPlan({svp::Job(std::make_shared<const svp::DeviceProgram>("add", builder.build()))});
}

TEST(InstructionClock, AnOperationOfACardThatCountsIsRight) {
  constexpr std::size_t kElements = 4096;
  svp::ContextOptions options;
  options.card.emplace().emulator.extra_arguments = kCounted;
  const auto context = svp::Context::open(std::move(options));
  EXPECT_EQ(context->device().config().array_version != 0, svp::test::cards_have_array());
  std::vector<wire::Dl16> a(kElements), b(kElements), sum(kElements), expected(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    a[i] = wire::dl16_from_fp32(static_cast<float>(i % 100));
    b[i] = wire::dl16_from_fp32(static_cast<float>(i % 7));
    expected[i] = wire::dl16_from_fp32(static_cast<float>(i % 100 + i % 7));
  }
  auto& stream = context->runtime().default_stream();
  std::vector<svp::Argument> arguments;
  for (const auto* values : {&a, &b, &sum}) {
    const std::size_t bytes = kElements * sizeof(wire::Dl16);
    arguments.push_back(svp::Argument::raw(context->runtime().allocator().allocate(bytes)));
    stream.Launch(svp::Job::to_device(values->data(), arguments.back().allocation, bytes), {});
  }
  svp::ExecutionPlan plan = addition(kElements);
  context->load(plan);
  stream.Launch(plan.jobs()[0], arguments);
  stream.Launch(svp::Job::from_device(sum.data(), arguments[2].allocation, kElements * sizeof(wire::Dl16)), {});
  stream.Synchronize(std::chrono::steady_clock::now() + test_bounds::kCompute);
  EXPECT_EQ(sum, expected);
}

// The times on the console are the clock's: the comparison sees a difference of a microsecond.
TEST(InstructionClock, WithoutItNoTwoBootsTakeTheSameTime) {
  const Boot first = boot(self_test_words(), {});
  bool differs = false;
  for (int again = 0; again < 5 && !differs; ++again) {
    differs = boot(self_test_words(), {}).console != first.console;
  }
  EXPECT_TRUE(differs) << first.console;
}

}  // namespace
