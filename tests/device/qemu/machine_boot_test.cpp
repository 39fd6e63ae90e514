// SPDX-License-Identifier: Apache-2.0
//
// Machine against the real emulator, with a probe firmware that exercises the wiring and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "qemu/emulator_environment.hpp"
#include "qemu/frozen_thread.hpp"
#include "qemu/machine.hpp"
#include "tests/bounds.hpp"
#include "tests/device/qemu/probe_firmware.hpp"
#include "tests/support/process_end.hpp"
#include "tests/support/process_resources.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace qemu {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
constexpr milliseconds kBound = test_bounds::kEmulator;

/// The tenant's view of one slot.
class Tenant {
 public:
  explicit Tenant(svp::SlotHandle handle) : handle_(std::move(handle)) {
    mapping_ = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, handle_.window_fd(), 0);
  }
  ~Tenant() { ::munmap(mapping_, kMapped); }
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  [[nodiscard]] std::uint64_t read(probe::Word word) const { return at(word).load(std::memory_order_acquire); }
  void write(probe::Word word, std::uint64_t value) { at(word).store(value, std::memory_order_release); }
  void ring() const {
    const char doorbell[svp::kDoorbellBytes] = {};
    [[maybe_unused]] const ssize_t ignored = ::write(handle_.doorbell_to_card(), doorbell, sizeof doorbell);
  }
  [[nodiscard]] bool wait_ring(milliseconds timeout = kBound) const {
    pollfd event{handle_.doorbell_from_card(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(timeout.count())) != 1) return false;
    char drained[4096];
    // bounded: poll() said that there is something
    return ::read(handle_.doorbell_from_card(), drained, sizeof drained) > 0;
  }
  void command(probe::Command command, std::uint64_t argument) {
    write(probe::kArgument, argument);
    write(probe::kCommand, command);
    ring();
  }

 private:
  static constexpr std::size_t kMapped = 4096;
  [[nodiscard]] std::atomic_ref<std::uint64_t> at(probe::Word word) const {
    return std::atomic_ref{static_cast<std::uint64_t*>(mapping_)[word]};
  }
  svp::SlotHandle handle_;
  void* mapping_;
};

class MachineBootTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.firmware = SPYRE_PROBE_FIRMWARE;
    options_.memory_bytes = probe::kMemoryBytes;
    before_ = svp::test::count_resources_without_threads();
  }
  void TearDown() override { EXPECT_EQ(svp::test::count_resources_without_threads(), before_); }

  Machine start(unsigned slots) {
    options_.slots.assign(slots, {.window_bytes = probe::kWindowBytes});
    auto machine = Machine::start(options_);
    if (!machine) {
      ADD_FAILURE() << to_string(machine.error());
      std::abort();
    }
    return std::move(*machine);
  }
  static std::unique_ptr<Tenant> tenant(const Machine& machine, unsigned slot) {
    return std::make_unique<Tenant>(std::move(*machine.slot(slot)));
  }

  MachineOptions options_;
  svp::test::ProcessResources before_;
};

class SlotCountTest : public MachineBootTest, public testing::WithParamInterface<unsigned> {};

TEST_P(SlotCountTest, EverySlotIsFoundInDevfnOrderAndRingsBothWays) {
  Machine machine = start(GetParam());
  std::uint64_t previous = 0;
  for (unsigned i = 0; i < GetParam(); ++i) {
    const auto slot = tenant(machine, i);
    ASSERT_TRUE(slot->wait_ring()) << "first ring of slot " << i << '\n' << machine.console();
    EXPECT_EQ(slot->read(probe::kMagic), probe::kReady + i);
    EXPECT_GT(slot->read(probe::kDevfn), previous);
    previous = slot->read(probe::kDevfn);
    slot->ring();
    EXPECT_TRUE(slot->wait_ring()) << "echo of slot " << i;
    EXPECT_EQ(slot->read(probe::kEchoes), 1U);
  }
  EXPECT_TRUE(machine.wait_console("probe: " + std::to_string(GetParam()) + " slots\n", kBound));
  EXPECT_EQ(machine.error_output(), "");
}

INSTANTIATE_TEST_SUITE_P(Slots, SlotCountTest, testing::Values(1, 3, 26, 31, 32, 64));

TEST_F(MachineBootTest, TheFirstRingOfTheCardIsNeverLost) {
  // No look at the window here: the doorbell alone must come, at once, every time.
  for (int boot = 0; boot < 12; ++boot) {
    Machine machine = start(3);
    for (unsigned i = 0; i < 3; ++i)
      ASSERT_TRUE(tenant(machine, i)->wait_ring(test_bounds::kProbeDoorbell)) << "boot " << boot;
  }
}

TEST_F(MachineBootTest, PausedCardsRunNothing) {
  options_.start_paused = true;
  Machine machine = start(1);
  const auto slot = tenant(machine, 0);
  EXPECT_FALSE(slot->wait_ring(test_bounds::kQuiet));
  EXPECT_EQ(slot->read(probe::kMagic), 0U);
  ASSERT_TRUE(machine.cont());
  EXPECT_TRUE(slot->wait_ring());
}

TEST_F(MachineBootTest, FirmwareExitCodesAreTheEmulators) {
  for (const int code : {0, 7, 255}) {
    Machine machine = start(1);
    const auto slot = tenant(machine, 0);
    ASSERT_TRUE(slot->wait_ring());
    slot->command(probe::kExit, static_cast<std::uint64_t>(code));
    EXPECT_EQ(machine.wait_exit(kBound).value_or(ExitStatus{}), (ExitStatus{ExitStatus::Kind::kExited, code}));
  }
}

TEST_F(MachineBootTest, AKilledEmulatorIsKnown) {
  Machine machine = start(3);
  const auto exit_fd = machine.exit_fd();
  ASSERT_TRUE(exit_fd);
  const auto begin = Clock::now();
  svp::test::send_signal(machine.pid(), SIGKILL);
  pollfd event{exit_fd->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, test_bounds::in_milliseconds(kBound)), 1);
  const auto signalled = Clock::now();
  EXPECT_TRUE(machine.wait_exit(kBound));
  const auto known = Clock::now();
  RecordProperty("exit_fd_us", static_cast<int>((signalled - begin) / std::chrono::microseconds{1}));
  RecordProperty("status_us", static_cast<int>((known - begin) / std::chrono::microseconds{1}));
}

TEST_F(MachineBootTest, AResetKeepsWindowsAndDoorbells) {
  std::atomic<int> resets{0};
  options_.on_event = [&](const MachineEvent& event) { resets += event.kind == MachineEvent::Kind::kReset; };
  Machine machine = start(3);
  const auto slot = tenant(machine, 2);
  ASSERT_TRUE(slot->wait_ring());
  EXPECT_EQ(slot->read(probe::kBoots), 1U);
  ASSERT_TRUE(machine.system_reset());
  ASSERT_TRUE(slot->wait_ring());
  EXPECT_EQ(slot->read(probe::kBoots), 2U);
  slot->ring();
  EXPECT_TRUE(slot->wait_ring());
  EXPECT_EQ(resets, 1);
}

TEST_F(MachineBootTest, EveryHartHasAHostThread) {
  options_.harts = 4;
  Machine machine = start(1);
  const auto harts = machine.hart_threads();
  ASSERT_TRUE(harts);
  ASSERT_EQ(harts->size(), 4U);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(harts->at(i).hart, i);
    EXPECT_TRUE(std::filesystem::exists("/proc/" + std::to_string(machine.pid()) + "/task/" +
                                        std::to_string(harts->at(i).host_thread)));
  }
}

// A traced thread that has died belongs to its tracer: until that has collected it, the emulator has not ended.
TEST_F(MachineBootTest, AnEmulatorWithAFrozenHartCanBeKilled) {
  Machine machine = start(1);
  const auto harts = machine.hart_threads();
  ASSERT_TRUE(harts.has_value());
  auto frozen = FrozenThread::freeze(harts->front().host_thread, kBound);
  ASSERT_TRUE(frozen.has_value()) << to_string(frozen.error());
  const auto killed = machine.kill();
  EXPECT_TRUE(killed.has_value()) << to_string(killed.error());
}

TEST_F(MachineBootTest, AHartThatDoesNotFreezeInTimeGoesOn) {
  Machine machine = start(1);
  const auto slot = tenant(machine, 0);
  ASSERT_TRUE(slot->wait_ring());
  const auto harts = machine.hart_threads();
  ASSERT_TRUE(harts.has_value());
  unsigned late = 0;
  for (unsigned tries = 0; late < 10 && tries < 10'000; ++tries) {
    const auto frozen = FrozenThread::freeze(harts->front().host_thread, milliseconds{0});
    if (frozen) continue;
    ASSERT_EQ(frozen.error().kind, MachineError::Kind::kTimeout) << to_string(frozen.error());
    ++late;
  }
  EXPECT_GT(late, 0u) << "each froze at once";
  slot->ring();
  EXPECT_TRUE(slot->wait_ring());
}

TEST_F(MachineBootTest, TheEmulatorHasItsAllocator) {
  const auto allocator = emulator_allocator();
  ASSERT_TRUE(allocator) << "scripts/bootstrap installs libjemalloc2";
  Machine machine = start(1);
  std::ifstream file("/proc/" + std::to_string(machine.pid()) + "/maps");
  const std::string maps{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(maps, testing::HasSubstr(std::filesystem::canonical(*allocator).filename().string()));
}

TEST_F(MachineBootTest, AFloodOfConsoleTextArrivesInOrder) {
  Machine machine = start(1);
  const auto slot = tenant(machine, 0);
  ASSERT_TRUE(slot->wait_ring());
  slot->command(probe::kPrint, 3'000);
  ASSERT_TRUE(machine.wait_console("line 2999\n", kBound)) << machine.console().substr(0, 200);
  const std::string text = machine.console();
  std::size_t at = 0;
  for (int i = 0; i < 3'000; ++i) {
    at = text.find("line " + std::to_string(i) + "\n", at);
    ASSERT_NE(at, std::string::npos) << "line " << i << " is missing";
  }
}

TEST_F(MachineBootTest, TenantsThatLeaveDoNotDisturbTheEmulator) {
  Machine machine = start(3);
  for (unsigned i = 0; i < 3; ++i) ASSERT_TRUE(tenant(machine, i)->wait_ring());
  // Every handle is closed now. An emulator that spins on an ended pipe burns a tick per 10 ms.
  const std::uint64_t before = svp::test::cpu_ticks(machine.pid());
  std::this_thread::sleep_for(test_bounds::kRest);  // bounded: the time that is measured
  EXPECT_LT(svp::test::cpu_ticks(machine.pid()) - before, 25);
  const auto again = tenant(machine, 1);
  again->ring();
  EXPECT_TRUE(again->wait_ring());
}

TEST_F(MachineBootTest, AFloodOfRingsHoldsNobodyUp) {
  Machine machine = start(2);
  const auto flooded = tenant(machine, 0);
  const auto neighbour = tenant(machine, 1);
  ASSERT_TRUE(flooded->wait_ring());
  ASSERT_TRUE(neighbour->wait_ring());
  for (int i = 0; i < 20'000; ++i) flooded->ring();  // its answers are never read: that pipe fills up as well
  neighbour->ring();
  EXPECT_TRUE(neighbour->wait_ring());
  EXPECT_TRUE(machine.alive());
}

TEST_F(MachineBootTest, SocketsHaveNoName) {
  Machine machine = start(3);
  std::vector<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(machine.pid()) + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.push_back(target.substr(8, target.size() - 9));
  }
  EXPECT_GE(inodes.size(), 4U);
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 7; ++i) fields >> field;
    std::string path;
    if (std::ranges::find(inodes, field) != inodes.end()) EXPECT_FALSE(fields >> path) << path;
  }
}

TEST_F(MachineBootTest, ARefusedArgumentIsShownInTheEmulatorsWords) {
  options_.extra_arguments = {"-device", "no-such-device"};
  options_.slots.resize(1);
  const auto machine = Machine::start(options_);
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().kind, MachineError::Kind::kStartFailed);
  EXPECT_THAT(machine.error().message, testing::HasSubstr("no-such-device"));
}

TEST_F(MachineBootTest, UnknownCommandsAreRefusedInTheEmulatorsWords) {
  Machine machine = start(1);
  const auto result = machine.execute("no-such-command", {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, MachineError::Kind::kQmpError);
  EXPECT_THAT(result.error().message, testing::HasSubstr("no-such-command"));
}

TEST_F(MachineBootTest, NoEmulatorSurvivesAKilledOwner) {
  for (const std::string ending : {"hold", "fork-hold", "thread", "_exit", "exec", "exception"}) {
    test::Owner owner(SPYRE_MACHINE_OWNER, "qemu-system-riscv64", SPYRE_PROBE_FIRMWARE, ending);
    ASSERT_GT(owner.emulator(), 0) << ending;
    if (ending == "hold" || ending == "fork-hold" || ending == "thread") {
      EXPECT_TRUE(test::is_alive(owner.emulator())) << ending;
      owner.kill();
    }
    EXPECT_TRUE(test::wait_for_end(owner.emulator(), kBound)) << ending;
    if (owner.reaper() > 1) EXPECT_TRUE(test::wait_for_end(owner.reaper(), kBound)) << ending;
    if (owner.forked_child() > 0) {
      EXPECT_TRUE(test::is_alive(owner.forked_child()));
      svp::test::send_signal(owner.forked_child(), SIGKILL);
      EXPECT_TRUE(test::wait_for_end(owner.forked_child(), kBound));
    }
  }
}

}  // namespace
}  // namespace qemu
