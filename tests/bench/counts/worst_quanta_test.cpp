// SPDX-License-Identifier: Apache-2.0
// The longest iteration of hart 0's loop that a function can cause with each admin command and each control block while
// a neighbour is busy, in instructions: a ring full of the same, with the arguments and the state that make it dearest.
// Nothing here depends on the clock but what the card itself does now and then (it beats, it polls), which is small.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "qemu/card.hpp"
#include "shared/command_buffer.hpp"
#include "tests/bench/counts/counting_card.hpp"
#include "tests/support/buffer_entry.hpp"
#include "tests/validation/raw/bare_slot.hpp"
#include "tests/validation/raw/raw_driver.hpp"

namespace counts {
namespace {

using raw::RawDriver;
using raw::StreamHandle;
using wire::AdminCommand;
using wire::ControlBlock;
using wire::Opcode;
using wire::Outcome;

// fw::kQuantumTicks are 60 microseconds, and the emulator executes about a thousand instructions of the firmware in one
// (docs/performance.md, "Counts"). The loop's own part, a heartbeat and what the last step is finished with come on
// top.
constexpr std::uint64_t kMostInstructions = 60'000;

raw::BareSlot open_slot(CountingCard& card, unsigned index) {
  auto handle = card.context().card().machine().slot(index);
  if (!handle) throw std::runtime_error(qemu::to_string(handle.error()));
  return raw::BareSlot(*std::move(handle));
}

// A function in the hands of a raw client.
struct Client {
  Client(CountingCard& card, unsigned index)
      : slot(open_slot(card, index)), driver(slot.window(), [this] {
          slot.pump();
          meanwhile();
        }) {}
  raw::BareSlot slot;
  std::function<void()> meanwhile = [] {};  // while it waits
  RawDriver driver;
};

class WorstQuanta : public testing::Test {
 protected:
  static constexpr unsigned kManagement = 0, kTenant = 2, kOther = 3;  // slots
  static constexpr std::uint64_t kSource = wire::kHostMemoryOffset + wire::kMiB;

  WorstQuanta() {
    for (Client* client : {&manager_, &tenant_, &other_}) EXPECT_TRUE(client->driver.bring_up());
    region_ = tenant_.driver.acquire(4 * wire::kMiB).value();
    for (Client* client : {&manager_, &tenant_}) client->meanwhile = [this] { keep_neighbour_busy(); };
  }

  // One empty block after the other: the card is contended, and each function gets its smaller quanta.
  void keep_neighbour_busy() {
    (void)other_.driver.collect();
    if (other_.driver.blocks_under_way() == 0) other_.driver.submit(other_.driver.nop(other_stream_));
  }

  // ---- rings full of the same

  // Requests go out together, so that a quantum takes as many as it may.
  void flood(RawDriver& driver, const std::function<wire::AdminRequest()>& make, unsigned requests) {
    while (requests != 0) {
      std::vector<std::uint16_t> slots;
      for (; requests != 0 && slots.size() < wire::kAdminSlots && driver.admin_slot_free(); --requests) {
        slots.push_back(driver.send_admin(make()));
      }
      for (const std::uint16_t slot : slots) ASSERT_TRUE(driver.wait_admin(slot).has_value());
    }
  }
  void flood_tenant(const std::function<wire::AdminRequest()>& make, unsigned requests = 4 * wire::kAdminSlots) {
    flood(tenant_.driver, make, requests);
  }

  void expect_bounded(const std::string& what, const std::function<void()>& work) {
    work();  // once, for the emulator's translations and the card's caches
    const std::uint64_t longest = card_.longest_iteration(work);
    EXPECT_GT(other_stream_.next_sequence, 1u) << "the neighbour was never busy";
    fmt::print("{:<44} {:>8} instructions\n", what, longest);
    EXPECT_LT(longest, kMostInstructions) << what;
  }

  // ---- states that make a command dear

  std::vector<StreamHandle> open_all() {
    std::vector<StreamHandle> streams;
    while (auto stream = tenant_.driver.open_stream()) streams.push_back(*stream);
    return streams;
  }
  void begin_again() {
    ASSERT_TRUE(tenant_.driver.bring_up());
    region_ = tenant_.driver.acquire(4 * wire::kMiB).value();
  }
  wire::AdminRequest request(AdminCommand command) const { return tenant_.driver.admin_request(command); }
  // As many blocks as a stream may have, behind a wait that nothing fulfils.
  void fill_stream(StreamHandle& stream, const StreamHandle& awaited) {
    RawDriver& driver = tenant_.driver;
    driver.submit(driver.event_wait(stream, awaited, 1'000'000));
    for (unsigned i = 1; i < wire::kStreamCredits && driver.block_slot_free(); ++i) driver.submit(driver.nop(stream));
    settle();
  }
  void settle() { (void)tenant_.driver.admin(request(AdminCommand::Stats)); }
  decltype(wire::AdminReply::Values::buffer) make_buffer(const ControlBlock& block) {
    for (unsigned i = 0; i < wire::kMaxBufferBlocks; ++i) {
      const ControlBlock entry = svp::test::buffer_entry(block);
      std::memcpy(tenant_.driver.at<std::byte>(kSource + i * sizeof entry), &entry, sizeof entry);
    }
    auto create = request(AdminCommand::BufferCreate);
    create.arguments.buffer_create = {kSource, wire::kMaxBufferBlocks, wire::kMaxBufferDataBytes};
    const auto reply = tenant_.driver.admin(create);
    EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
    return reply.values.buffer;
  }

  CountingCard card_{2};
  Client manager_{card_, kManagement};
  Client tenant_{card_, kTenant};
  Client other_{card_, kOther};
  raw::RegionHandle region_{};
  StreamHandle other_stream_;
};

TEST_F(WorstQuanta, OfCommandsThatLookAtLittle) {
  for (const auto command : {AdminCommand::Stats, AdminCommand::Query, AdminCommand::TimelineCreate,
                             AdminCommand::FunctionQuery, AdminCommand::SelfTest, AdminCommand::FaultArm}) {
    expect_bounded(std::string(wire::name(command)), [&] { flood_tenant([&] { return request(command); }); });
  }
}

TEST_F(WorstQuanta, OfRegions) {
  expect_bounded("REGION_ACQUIRE, refused", [&] {
    flood_tenant([&] {
      auto acquire = request(AdminCommand::RegionAcquire);
      acquire.arguments.region_acquire = {12 * wire::kGiB, wire::RegionType::Tensor};
      return acquire;
    });
  });
  expect_bounded("REGION_ACQUIRE and REGION_RELEASE", [&] {
    for (int i = 0; i < 4; ++i) {
      std::vector<raw::RegionHandle> regions;
      while (const auto region = tenant_.driver.acquire(2 * wire::kMiB)) regions.push_back(*region);
      for (const auto& region : regions) (void)tenant_.driver.release(region);
    }
  });
}

TEST_F(WorstQuanta, OfStreams) {
  expect_bounded("STREAM_OPEN and STREAM_CLOSE", [&] {
    for (const StreamHandle& stream : open_all()) {
      (void)tenant_.driver.admin(tenant_.driver.stream_request(AdminCommand::StreamClose, stream));
    }
  });
  expect_bounded("STREAM_RESET of a full stream", [&] {
    StreamHandle zero;
    auto stream = tenant_.driver.open_stream().value();
    fill_stream(stream, zero);
    (void)tenant_.driver.reset_stream(stream);
    begin_again();
  });
  expect_bounded("STREAM_RESET under 127 waits for it", [&] {
    StreamHandle zero;
    for (StreamHandle& stream : open_all()) {
      tenant_.driver.submit(tenant_.driver.event_wait(stream, zero, 1));
    }
    settle();
    (void)tenant_.driver.reset_stream(zero);
    settle();
    begin_again();
  });
  expect_bounded("CANCEL of the last block", [&] {
    StreamHandle zero;
    auto stream = tenant_.driver.open_stream().value();
    fill_stream(stream, zero);
    std::uint64_t sequence = stream.next_sequence;
    flood_tenant(
        [&] {
          auto cancel = request(AdminCommand::Cancel);
          cancel.arguments.cancel = {stream.id, stream.incarnation, --sequence};
          return cancel;
        },
        wire::kStreamCredits - 1);
    begin_again();
  });
}

TEST_F(WorstQuanta, OfBuffersAndTraces) {
  StreamHandle nowhere;
  expect_bounded("BUFFER_CREATE, 64 transfers", [&] {
    const auto buffer =
        make_buffer(tenant_.driver.dma(nowhere, RawDriver::host(kSource), RawDriver::device(region_, 0), 128));
    auto destroy = request(AdminCommand::BufferDestroy);
    destroy.arguments.buffer_destroy = {buffer.buffer, 0, buffer.epoch};
    (void)tenant_.driver.admin(destroy);
  });
  expect_bounded("TRACE", [&] {
    flood_tenant([&] {
      auto trace = request(AdminCommand::Trace);
      trace.arguments.trace.on = 1;
      return trace;
    });
  });
}

TEST_F(WorstQuanta, OfGrants) {
  StreamHandle zero;
  expect_bounded("EVENT_GRANT and EVENT_REVOKE", [&] {
    for (int i = 0; i < 16; ++i) {
      const auto reply = manager_.driver.admin(manager_.driver.grant_request(
          wire::target_of_virtual(2), other_.driver, zero, wire::target_of_virtual(1), tenant_.driver));
      ASSERT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
      (void)manager_.driver.admin(manager_.driver.revoke_request(
          wire::target_of_virtual(1), {reply.values.event_grant.grant, reply.values.event_grant.epoch}));
    }
  });
}

TEST_F(WorstQuanta, OfBlocks) {
  RawDriver& driver = tenant_.driver;
  StreamHandle stream;
  const auto flood_blocks = [&](const std::function<ControlBlock()>& make) {
    for (int round = 0; round < 8; ++round) {
      for (unsigned i = 0; i < 100; ++i) driver.submit(make());
      (void)driver.wait_for(100);
    }
  };
  expect_bounded("NOP", [&] { flood_blocks([&] { return driver.nop(stream); }); });
  expect_bounded("FILL of a stick", [&] { flood_blocks([&] { return driver.fill(stream, region_, 0, 128, 1); }); });
  expect_bounded("FILL of 256 KiB",
                 [&] { flood_blocks([&] { return driver.fill(stream, region_, 0, 256 * wire::kKiB, 1); }); });
  std::uint64_t value = 0;
  expect_bounded("EVENT_SIGNAL", [&] { flood_blocks([&] { return driver.event_signal(stream, ++value); }); });
  const auto buffer = make_buffer(driver.fill(stream, region_, 0, 128, 1));
  expect_bounded("CALL of 64 FILLs", [&] {
    flood_blocks([&] {
      ControlBlock call{};
      call.header.opcode = Opcode::Call;
      call.payload.call = {
          .buffer = buffer.buffer, .reserved0 = 0, .epoch = buffer.epoch, .signal_base = 0, .reserved = {}};
      return driver.addressed(stream, call);
    });
  });
  expect_bounded("PATCH", [&] {
    flood_blocks([&] {
      ControlBlock patch{};
      patch.header.opcode = Opcode::Patch;
      patch.payload.patch = {.buffer = buffer.buffer,
                             .block = 1,
                             .epoch = buffer.epoch,
                             .offset = kSource,
                             .bytes = wire::kBufferBlockBytes,
                             .reserved = {}};
      return driver.addressed(stream, patch);
    });
  });
}

// Each signal looks along the chain that it may have closed.
TEST_F(WorstQuanta, OfSignalsBehindAChainOfWaits) {
  RawDriver& driver = tenant_.driver;
  expect_bounded("EVENT_SIGNAL behind a chain of 95 waits", [&] {
    begin_again();
    StreamHandle zero;
    auto streams = open_all();
    constexpr unsigned kHeads = 30;
    for (std::size_t i = streams.size(); i-- != 0;) {
      const StreamHandle& awaited = i < kHeads ? streams[kHeads] : i + 1 == streams.size() ? zero : streams[i + 1];
      driver.submit(driver.event_wait(streams[i], awaited, 1));
      driver.submit(driver.event_signal(streams[i], 1));
      settle();
    }
    for (std::uint64_t value = 2; value < 9; ++value) {
      for (unsigned i = 0; i < kHeads; ++i) driver.submit(driver.event_signal(streams[i], value));
      settle();
    }
  });
}

// Its blocks end in steps of their streams.
TEST_F(WorstQuanta, OfQueueResets) {
  expect_bounded("reset of a full control-block queue", [&] {
    StreamHandle zero;
    for (int i = 0; i < 4; ++i) {
      auto stream = tenant_.driver.open_stream().value();
      fill_stream(stream, zero);
    }
    ASSERT_TRUE(tenant_.driver.reset_queue(wire::kControlBlockQueue));
    begin_again();
  });
}

TEST_F(WorstQuanta, OfResets) {
  expect_bounded("status 0 with all streams and grants", [&] {
    StreamHandle zero;
    for (StreamHandle& stream : open_all()) {
      tenant_.driver.submit(tenant_.driver.event_wait(stream, zero, 1));
    }
    settle();
    begin_again();
  });
}

}  // namespace
}  // namespace counts
