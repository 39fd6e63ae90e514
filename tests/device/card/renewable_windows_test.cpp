// SPDX-License-Identifier: Apache-2.0
// Windows that are plugged for each owner and unplugged behind it, peers that are never used again: by hand, without a
// broker, on one function.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/support/admin_requests.hpp"
#include "tests/support/bytes.hpp"

namespace svp {
namespace {

using test::Workbench;
using wire::Outcome;

constexpr wire::Target kVf1 = wire::target_of_virtual(1);
constexpr std::uint64_t kWindowBytes = 4 * wire::kMiB;

template <typename T>
T emulator_answer(qemu::Result<T> result) {
  if (!result) throw std::runtime_error(qemu::to_string(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

std::size_t descriptors_of(pid_t pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}/fd", pid);
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// How often the emulator has mapped files of a window's size: windows of owners, and the compute array's own mappings
// of them.
std::size_t window_mappings_of(pid_t pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0, end = 0;
    std::string rights;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> rights;
    count += rights == "rw-s" && end - begin == kWindowBytes ? 1 : 0;
  }
  return count;
}

struct Lease {
  qemu::PluggedWindow window;
  qemu::DoorbellPeer peer;
};

class RenewableWindows : public testing::Test {
 protected:
  static constexpr unsigned kPorts = 2;
  static constexpr unsigned kFirstPort = 3;  // M, PF, VF 1

  explicit RenewableWindows(std::uint16_t first_peer = qemu::kFirstRenewedPeer) {
    auto options = test::small_card();
    options.virtual_functions = 1;
    options.ports = kPorts;
    options.window_bytes = kWindowBytes;
    options.emulator.first_renewed_peer = first_peer;
    card_ = test::boot(options);
    management_ = value_or_throw(card_->open_management());
    retire();
    emulator_answer(machine().disconnect_peer(kVf1, qemu::kHostPeer));
  }
  ~RenewableWindows() override { test::expect_healthy(*card_, *management_); }

  qemu::Machine& machine() const { return card_->machine(); }

  wire::AdminReply ask(const wire::AdminRequest& request) const { return value_or_throw(management_->admin(request)); }
  void retire() const {
    EXPECT_EQ(test::manage(*management_, wire::AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  }
  wire::AdminReply bind(const Lease& lease) const {
    wire::AdminRequest request = test::admin_request(wire::AdminCommand::SlotBind);
    request.arguments.bind = {kVf1, kFirstPort + lease.window.port, lease.window.serial, lease.peer.slot,
                              lease.peer.id};
    return ask(request);
  }
  Lease make_lease(unsigned port) const {
    return {emulator_answer(machine().plug_window(port, kWindowBytes)), emulator_answer(machine().connect_peer(kVf1))};
  }
  static bool received(const qemu::DoorbellPeer& peer) {
    pollfd event{peer.from_card.get(), POLLIN, 0};
    return ::poll(&event, 1, static_cast<int>(std::chrono::milliseconds(test::kBound).count())) == 1;
  }
  std::unique_ptr<Device> attach(const Lease& lease) const {
    DeviceOptions options;
    options.exit_fd = emulator_answer(machine().exit_fd());
    return value_or_throw(Device::attach({kFirstPort + lease.window.port, kWindowBytes, lease.window.memory.duplicate(),
                                          lease.peer.to_card.duplicate(), lease.peer.from_card.duplicate()},
                                         std::move(options)));
  }
  // The owner is gone: nothing of it is left in the emulator.
  void end(const Lease& lease) const {
    retire();
    emulator_answer(machine().disconnect_peer(lease.peer.slot, lease.peer.id));
    expect_gone(lease);
  }
  void expect_gone(const Lease& lease) const {
    const auto limit = test::soon();
    while (!emulator_answer(machine().window_gone(lease.window.serial))) {
      ASSERT_LT(Device::Clock::now(), limit) << "the window is still plugged";
      std::this_thread::sleep_for(test_bounds::kLook);  // bounded: a pause of the loop above
    }
  }
  static void work(Device& device, std::uint64_t pattern) { work(Workbench(device), pattern); }
  static void work(const Workbench& bench, std::uint64_t pattern) {
    ASSERT_EQ(bench.run(Workbench::fill(bench.tensor(0), 4096, pattern)).outcome, Outcome::Ok);
    ASSERT_EQ(bench.run(Workbench::dma(bench.tensor(0), bench.host(0), 4096)).outcome, Outcome::Ok);
    ASSERT_EQ(*reinterpret_cast<const std::uint64_t*>(bench.device().host_memory().data()), pattern);
  }

  std::unique_ptr<Card> card_;
  std::unique_ptr<Device> management_;
};

TEST_F(RenewableWindows, EachOwnerFindsAFreshOneAndNothingPilesUp) {
  constexpr unsigned kOwners = 100;
  const std::size_t descriptors = descriptors_of(machine().pid());
  const std::size_t mappings = window_mappings_of(machine().pid());
  for (unsigned owner = 0; owner < kOwners; ++owner) {
    const Lease lease = make_lease(owner % kPorts);
    const auto bound = bind(lease);
    ASSERT_EQ(bound.outcome, Outcome::Ok) << wire::name(bound.status);
    ASSERT_TRUE(received(lease.peer)) << "the first doorbell";
    {
      const auto device = attach(lease);
      ASSERT_TRUE(svp::test::all_bytes_are(device->host_memory(), std::byte{0}));
      work(*device, owner + 1);
      std::ranges::fill(device->host_memory(), std::byte{0x5a});
    }
    end(lease);
  }
  // A thread of the emulator closes the last window's file a moment after it was deleted.
  const auto limit = test::soon();
  while (descriptors_of(machine().pid()) != descriptors && Device::Clock::now() < limit) {
    std::this_thread::sleep_for(test_bounds::kLook);  // bounded: a pause of the loop above
  }
  EXPECT_EQ(descriptors_of(machine().pid()), descriptors);
  EXPECT_EQ(window_mappings_of(machine().pid()), mappings);
}

// Transfers are under way when the card loses the window: they end with it, or the card has moved on; in neither case
// is memory touched that is not there any more.
TEST_F(RenewableWindows, ATransferUnderWayDoesNotOutliveItsWindow) {
  using StridedLevel = wire::StridedLevel;
  constexpr std::uint64_t kBytes = 2 * wire::kMiB;
  constexpr unsigned kOwners = 20;
  unsigned cut_off = 0;
  for (unsigned owner = 0; owner < kOwners; ++owner) {
    const Lease lease = make_lease(owner % kPorts);
    ASSERT_EQ(bind(lease).outcome, Outcome::Ok);
    ASSERT_TRUE(received(lease.peer));
    const auto device = attach(lease);
    const Workbench bench(*device);
    work(bench, owner);
    // Every other element: the strided engine. 2 MiB in one piece: the linear one.
    const StridedLevel levels[] = {{kBytes / 4, 4, 4}};
    test::BlockStream<test::CompletionCounter> stream(*device);
    std::vector<wire::ControlBlock> blocks;
    for (unsigned i = 0; i < 16; ++i) {
      blocks.push_back(i % 2 == 0 ? Workbench::dma(bench.host(0), bench.tensor(0), kBytes)
                                  : Workbench::strided(bench.tensor(0), bench.host(0), 2, levels));
    }
    ASSERT_EQ(stream.submit(blocks), blocks.size());
    ASSERT_TRUE(stream.wait_started(1, test::kBound));
    end(lease);
    device->close();
    ASSERT_TRUE(stream.all_ended());
    cut_off += stream.sink().not_ok() != 0 ? 1 : 0;
  }
  EXPECT_GT(cut_off, 0u) << "each owner's transfers had ended before the window went";
}

TEST_F(RenewableWindows, AResetOfTheCardKeepsThePluggedOneAndItsOwner) {
  const Lease lease = make_lease(1);
  const Lease spare{.window = emulator_answer(machine().plug_window(0, kWindowBytes)), .peer = {}};
  ASSERT_EQ(bind(lease).outcome, Outcome::Ok);
  const std::size_t mappings = window_mappings_of(machine().pid());
  for (int round = 0; round < 3; ++round) {
    management_->close();
    value_or_throw(card_->reset());
    management_ = value_or_throw(card_->open_management());
    EXPECT_EQ(bind(lease).outcome, Outcome::Ok) << "the same again is no error";
    const auto device = attach(lease);
    work(*device, 77);
    EXPECT_EQ(window_mappings_of(machine().pid()), mappings) << "each is mapped as often as before the reset";
  }
  end(lease);
  // What was plugged and not bound before the resets serves the next owner.
  const Lease next{.window = {spare.window.port, spare.window.serial, kWindowBytes, spare.window.memory.duplicate()},
                   .peer = emulator_answer(machine().connect_peer(kVf1))};
  ASSERT_EQ(bind(next).outcome, Outcome::Ok);
  work(*attach(next), 78);
  end(next);
}

TEST_F(RenewableWindows, AnEmptyPortIsRefused) {
  const Lease lease{.window = {.port = 0, .serial = 1, .bytes = kWindowBytes, .memory = {}},
                    .peer = emulator_answer(machine().connect_peer(kVf1))};
  EXPECT_EQ(bind(lease).status, wire::Status::OutOfSlots);
}

// A former owner keeps the pipe to the card, which all owners of the function share: it may fill and drain it.
TEST_F(RenewableWindows, AFormerOwnersDoorbellsMakeTheNextOwnersLateAtMost) {
  const Lease former = make_lease(0);
  ASSERT_EQ(bind(former).outcome, Outcome::Ok);
  end(former);
  const Lease next = make_lease(1);
  // Its own flags stop nobody: the next owner's end is a file description of its own.
  ASSERT_EQ(::fcntl(former.peer.to_card.get(), F_SETFL, 0), 0);
  EXPECT_NE(::fcntl(next.peer.to_card.get(), F_GETFL) & O_NONBLOCK, 0);
  ASSERT_EQ(::fcntl(former.peer.to_card.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string path = fmt::format("/proc/self/fd/{}", former.peer.to_card.get());
  const UniqueFd drain{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  ASSERT_TRUE(drain.valid());
  std::atomic<std::uint64_t> drained{0};
  std::jthread hostile([&](const std::stop_token& stop) {
    std::array<std::byte, 4096> many{};
    for (bool fill = false; !stop.stop_requested(); fill = !fill) {  // bounded: the request; neither end blocks
      if (fill) [[maybe_unused]]
        const auto written = ::write(former.peer.to_card.get(), many.data(), many.size());
      // bounded: opened with O_NONBLOCK
      const auto read = ::read(drain.get(), many.data(), many.size());
      if (read > 0) drained += static_cast<std::uint64_t>(read);
    }
  });
  ASSERT_EQ(bind(next).outcome, Outcome::Ok);
  EXPECT_TRUE(received(next.peer));
  {
    const auto device = attach(next);
    const Workbench bench(*device);
    for (unsigned round = 0; round < 50; ++round) work(bench, round);
  }
  hostile.request_stop();
  hostile.join();  // bounded: it was asked to stop
  EXPECT_GT(drained.load(), 0u);
  end(next);
}

class LastPeers : public RenewableWindows {
 protected:
  static constexpr unsigned kLeft = 3;
  LastPeers() : RenewableWindows(qemu::kLastPeer - kLeft + 1) {}
};

TEST_F(LastPeers, BehindTheLastIdIsATypedErrorAndTheCardWorksOn) {
  for (unsigned owner = 0; owner < kLeft; ++owner) {
    const Lease lease = make_lease(0);
    ASSERT_EQ(bind(lease).outcome, Outcome::Ok);
    ASSERT_TRUE(received(lease.peer));
    work(*attach(lease), owner + 1);
    end(lease);
  }
  const auto refused = machine().connect_peer(kVf1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, qemu::MachineError::Kind::kPeersUsedUp);
  EXPECT_EQ(refused.error().next_step, "Power-cycle the card.");
  // Another function's device has its own ids.
  EXPECT_TRUE(machine().connect_peer(wire::kTargetPhysical));
}

}  // namespace
}  // namespace svp
