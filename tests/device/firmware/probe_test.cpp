// SPDX-License-Identifier: Apache-2.0
// Runs the conformance probe of firmware/arch and firmware/platform (firmware/probe) on the emulator. The proofs are
// the probe's own, written in terms of hal/; here stands what only the host can give: machines of several shapes,
// owners of slots, and what is left when a firmware broke.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>

#include "qemu/machine.hpp"
#include "tests/bounds.hpp"

namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr milliseconds kBound = test_bounds::kProbe;
constexpr int kExitPanic = 70;  // firmware/arch/riscv/panic.hpp

qemu::MachineOptions card(unsigned harts, const std::string& proof = {}) {
  qemu::MachineOptions options;
  options.firmware = std::filesystem::path(SPYRE_DEFAULT_FIRMWARE).parent_path() / "spyre-probe.elf";
  options.harts = harts;
  options.slots.clear();
  if (!proof.empty()) options.boot_arguments = "proof=" + proof;
  return options;
}

struct Outcome {
  int code = -1;
  std::string console;
};

// The code of an emulator that exited by itself within the bound.
Outcome finish(const qemu::Machine& machine) {
  const auto exit = machine.wait_exit(kBound);
  Outcome outcome{.console = machine.console()};
  if (!exit) {
    ADD_FAILURE() << qemu::to_string(exit.error());
  } else if (exit->kind != qemu::ExitStatus::Kind::kExited) {
    ADD_FAILURE() << qemu::to_string(*exit);
  } else {
    outcome.code = exit->value;
  }
  return outcome;
}

Outcome run(qemu::MachineOptions options) {
  const auto machine = qemu::Machine::start(std::move(options));
  if (!machine) {
    ADD_FAILURE() << qemu::to_string(machine.error());
    return {};
  }
  return finish(*machine);
}

void expect_all_proven(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.console;
  EXPECT_THAT(outcome.console, HasSubstr(" passed, 0 failed"));
  EXPECT_THAT(outcome.console, Not(HasSubstr("FAIL")));
}

class ProbeOnHarts : public ::testing::TestWithParam<unsigned> {};

TEST_P(ProbeOnHarts, EveryProofHolds) {
  const Outcome outcome = run(card(GetParam()));
  expect_all_proven(outcome);
  if (GetParam() > 1) EXPECT_THAT(outcome.console, Not(HasSubstr("SKIP")));
}

INSTANTIATE_TEST_SUITE_P(Harts, ProbeOnHarts, ::testing::Values(1u, 2u, 4u));

TEST(Probe, NothingReliesOnWhatVectorTailsAndMaskedLanesHold) {
  qemu::MachineOptions options = card(2);
  options.extra_arguments = {"-cpu", "rv64,v=true,vlen=1024,elen=64,vext_spec=v1.0,rvv_ta_all_1s=on,rvv_ma_all_1s=on"};
  expect_all_proven(run(std::move(options)));
}

TEST(Probe, ASmallMemoryIsEnough) {
  qemu::MachineOptions options = card(2);
  options.memory_bytes = 3 * qemu::kGiB;
  expect_all_proven(run(std::move(options)));
}

TEST(Probe, AMachineThatTheFirmwareCanNotRunOnIsRefusedWithAReason) {
  qemu::MachineOptions small = card(1);
  small.memory_bytes = 2 * qemu::kGiB;
  const Outcome memory = run(std::move(small));
  EXPECT_EQ(memory.code, kExitPanic);
  EXPECT_THAT(memory.console, HasSubstr("more than 2 GiB"));

  qemu::MachineOptions narrow = card(1);
  narrow.extra_arguments = {"-cpu", "rv64,v=true,vlen=256,elen=64,vext_spec=v1.0"};
  const Outcome vector = run(std::move(narrow));
  EXPECT_EQ(vector.code, kExitPanic);
  EXPECT_THAT(vector.console, HasSubstr("vlen=1024"));
}

TEST(Probe, PersistentMemorySurvivesWarmResetsAndInterruptsDoNot) { expect_all_proven(run(card(2, "reset"))); }

class ProbeRecord : public ::testing::TestWithParam<const char*> {};

TEST_P(ProbeRecord, TheRecordOfABrokenBootIsFoundByTheNext) {
  expect_all_proven(run(card(2, std::string("record-") + GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Ways, ProbeRecord,
                         ::testing::Values("trap", "stack", "assert", "silent", "kernel", "lock", "stuck", "damaged"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ProbeRecords, AreOfEveryHartWhereThereAreMany) { expect_all_proven(run(card(16, "record-trap"))); }

TEST(ProbeRecords, ACardThatBreaksInEveryBootGivesUp) {
  const Outcome outcome = run(card(2, "record-burst"));
  EXPECT_EQ(outcome.code, kExitPanic);
  EXPECT_THAT(outcome.console, HasSubstr("giving up"));
  constexpr unsigned kBoots = 9;  // hal::kMostRestarts and the first
  unsigned boots = 0;
  for (auto at = outcome.console.find("PANIC hart"); at != std::string::npos;
       at = outcome.console.find("PANIC hart", at + 1)) {
    ++boots;
  }
  EXPECT_EQ(boots, kBoots);
}

struct Break {
  const char* how;
  const char* told;
};
class ProbeBreaks : public ::testing::TestWithParam<Break> {};

TEST_P(ProbeBreaks, ABrokenFirmwareEndsWithALineAndACode) {
  const Outcome outcome = run(card(2, GetParam().how));
  EXPECT_EQ(outcome.code, kExitPanic) << outcome.console;
  EXPECT_THAT(outcome.console, HasSubstr(GetParam().told));
}

INSTANTIATE_TEST_SUITE_P(Ways, ProbeBreaks,
                         ::testing::Values(Break{"load", "PANIC hart 0: trap in firmware code, cause 0x5, value 0x8,"},
                                           Break{"text", "PANIC hart 0: trap in firmware code, cause 0x7"},
                                           Break{"stack", "PANIC hart 0: stack overflow, cause 0x7"},
                                           Break{"illegal", "PANIC hart 0: trap in firmware code, cause 0x2"},
                                           Break{"other",
                                                 "PANIC hart 1: trap in firmware code, cause 0x7, value 0x10,"},
                                           Break{"panic", "PANIC hart 0: on purpose"}),
                         [](const auto& info) { return std::string(info.param.how); });

// ---- slots ----------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kHello = 0x600d'0000'0000'0000;  // firmware/probe/slots.cpp

// Answers the probe in one slot: waits for its word and doorbell, checks, answers by word and doorbell.
class Owner {
 public:
  explicit Owner(svp::SlotHandle handle) : handle_(std::move(handle)) {
    page_ = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, handle_.window_fd(), 0);
  }
  ~Owner() { ::munmap(page_, 4096); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  // False when the card has not spoken yet.
  bool answer() {
    if (answered_ || word(0).load(std::memory_order_acquire) != kHello + handle_.index()) return answered_;
    EXPECT_EQ(word(2).load(), handle_.window_bytes());
    pollfd doorbell{handle_.doorbell_from_card(), POLLIN, 0};
    EXPECT_EQ(::poll(&doorbell, 1, test_bounds::in_milliseconds(test_bounds::kThread)), 1)
        << "the doorbell of slot " << handle_.index();
    word(1).store(kHello + handle_.index(), std::memory_order_release);
    const char ring[svp::kDoorbellBytes] = {};
    EXPECT_EQ(::write(handle_.doorbell_to_card(), ring, sizeof ring), static_cast<ssize_t>(sizeof ring));
    return answered_ = true;
  }

 private:
  std::atomic_ref<std::uint64_t> word(std::size_t index) {
    return std::atomic_ref(static_cast<std::uint64_t*>(page_)[index]);
  }

  svp::SlotHandle handle_;
  void* page_;
  bool answered_ = false;
};

// `mapped` slots fit at once, `answering` have answered when the card has ended.
void serve_slots(unsigned slots, std::uint64_t window_bytes, unsigned mapped, unsigned answering) {
  qemu::MachineOptions options = card(1, "slots");
  options.slots.assign(slots, qemu::SlotOptions{window_bytes});
  const auto machine = qemu::Machine::start(std::move(options));
  ASSERT_TRUE(machine) << qemu::to_string(machine.error());
  std::vector<std::unique_ptr<Owner>> owners;
  for (unsigned slot = 0; slot < slots; ++slot) {
    auto handle = machine->slot(slot);
    ASSERT_TRUE(handle) << qemu::to_string(handle.error());
    owners.push_back(std::make_unique<Owner>(std::move(*handle)));
  }
  unsigned answered = 0;
  const auto end = std::chrono::steady_clock::now() + kBound;
  while (machine->alive() && std::chrono::steady_clock::now() < end) {
    answered = 0;
    for (const auto& owner : owners) answered += owner->answer();
    std::this_thread::yield();
  }
  const Outcome outcome = finish(*machine);
  expect_all_proven(outcome);
  EXPECT_THAT(outcome.console, HasSubstr("slots_mapped " + std::to_string(mapped) + " slots"));
  EXPECT_EQ(answered, answering);
}

TEST(ProbeSlots, TwentySixSlotsAreMappedAndAnswer) { serve_slots(26, 256 * qemu::kMiB, 26, 26); }

TEST(ProbeSlots, PackedFunctionsAreFound) { serve_slots(45, 16 * qemu::kMiB, 45, 45); }

TEST(ProbeSlots, SixtyFourWindowsFitAndOneThatIsGivenBackMakesRoom) { serve_slots(66, 256 * qemu::kMiB, 64, 65); }

TEST(ProbeSlots, ACardWithoutSlotsBootsToo) {
  const Outcome outcome = run(card(1, "exit"));
  EXPECT_EQ(outcome.code, 0);
}

// ---- figures --------------------------------------------------------------------------------------------------------

TEST(ProbeFigures, ArePrinted) {
  const Outcome outcome = run(card(1, "measure"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.console, HasSubstr("FIGURE empty_kernel"));
  std::cout << outcome.console;
}

}  // namespace
