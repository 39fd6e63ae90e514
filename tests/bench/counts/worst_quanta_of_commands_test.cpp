// SPDX-License-Identifier: Apache-2.0
// The longest iteration of hart 0's loop that a function can cause with each admin command, in instructions: a ring
// full of the same, with the arguments and the state that make it dearest.
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "qemu/card.hpp"
#include "tests/bench/counts/worst_quanta.hpp"
#include "tests/support/admin_requests.hpp"

namespace counts {
namespace {

using raw::RawDriver;
using raw::StreamHandle;
using wire::AdminCommand;
using wire::Outcome;

class WorstQuantaOfCommands : public WorstQuanta, public testing::WithParamInterface<AdminCommand> {
 protected:
  // All rows of a command. A command that is not here does not compile.
  void measure(AdminCommand command);

  void expect_bounded_flood(const std::string& what, AdminCommand command, Outcome expected = Outcome::Ok) {
    expect_bounded(what, [&] { flood_tenant([&] { return request(command); }, kMany, expected); });
  }
  void acquire_regions();
  void release_regions();
  void open_streams();
  void reset_streams();
  void close_streams();
  void cancel_blocks();
  void test_oneself();
  void arm_faults();
  void reset_functions();
  void retire_slots();
  void bind_slots();
  void trace();
  void create_buffers();
  void destroy_buffers();
  void grant_events();
  void revoke_grants();

  // A grant of the neighbour's stream 0 to the tenant.
  raw::GrantHandle grant() {
    const auto reply = expect_ok(
        manager_.driver, manager_.driver.grant_request(kOtherTarget, other_.driver, {}, kTenantTarget, tenant_.driver));
    return {reply.values.event_grant.grant, reply.values.event_grant.epoch};
  }
  void revoke(const raw::GrantHandle& handle) {
    (void)expect_ok(manager_.driver, manager_.driver.revoke_request(kTenantTarget, handle));
  }
  // Each of the others for the first one.
  void wait_for_first(std::vector<StreamHandle> streams) {
    for (StreamHandle& stream : streams) {
      if (stream.id != streams.front().id) tenant_.driver.submit(tenant_.driver.event_wait(stream, streams.front(), 1));
    }
    settle();
  }
  // On all streams of the tenant.
  void wait_for(const raw::GrantHandle& handle) {
    for (StreamHandle& stream : open_all()) {
      tenant_.driver.submit(tenant_.driver.granted_wait(stream, handle, {}, 1'000'000'000));
    }
    settle();
  }
};

void WorstQuantaOfCommands::measure(AdminCommand command) {
  switch (command) {
    case AdminCommand::RegionAcquire: return acquire_regions();
    case AdminCommand::RegionRelease: return release_regions();
    case AdminCommand::StreamOpen: return open_streams();
    case AdminCommand::StreamReset: return reset_streams();
    case AdminCommand::StreamClose: return close_streams();
    case AdminCommand::Cancel: return cancel_blocks();
    case AdminCommand::SelfTest: return test_oneself();
    case AdminCommand::FaultArm: return arm_faults();
    case AdminCommand::FunctionReset: return reset_functions();
    case AdminCommand::SlotRetire: return retire_slots();
    case AdminCommand::SlotBind: return bind_slots();
    case AdminCommand::QuotaSet:
      return expect_bounded("QUOTA_SET", [&] {
        flood_manager([&] {
          auto quota = manager_.driver.admin_request(AdminCommand::QuotaSet);
          quota.arguments.quota = {.target = kTenantTarget, .weight = 1, .bytes = wire::kGiB};
          return quota;
        });
      });
    case AdminCommand::FunctionQuery:
      return expect_bounded("FUNCTION_QUERY", [&] { flood_manager([&] { return about(command); }); });
    case AdminCommand::Trace: return trace();
    case AdminCommand::BufferCreate: return create_buffers();
    case AdminCommand::BufferDestroy: return destroy_buffers();
    case AdminCommand::EventGrant: return grant_events();
    case AdminCommand::EventRevoke: return revoke_grants();
    // Of M it is a restart, after which nobody is there who could be late.
    case AdminCommand::FirmwareRestart:
      return expect_bounded_flood("FIRMWARE_RESTART, refused", command, Outcome::Rejected);
    case AdminCommand::TimelineCreate:
      return expect_bounded_flood("TIMELINE_CREATE, refused", command, Outcome::Rejected);
    case AdminCommand::Query:
    case AdminCommand::Stats: return expect_bounded_flood(std::string(wire::name(command)), command);
  }
  FAIL() << "no command";
}

void WorstQuantaOfCommands::acquire_regions() {
  expect_bounded("REGION_ACQUIRE, refused", [&] {
    begin_again();
    while (tenant_.driver.acquire(12 * wire::kGiB)) {  // bounded: a function has so many regions
    }
    flood_tenant(
        [&] {
          auto acquire = request(AdminCommand::RegionAcquire);
          acquire.arguments.region_acquire = {12 * wire::kGiB, wire::RegionType::Tensor};
          return acquire;
        },
        kMany, Outcome::Rejected);
  });
  expect_bounded("REGION_ACQUIRE", [&] {
    begin_again();
    flood_tenant(
        [&] {
          auto acquire = request(AdminCommand::RegionAcquire);
          acquire.arguments.region_acquire = {2 * wire::kMiB, wire::RegionType::Tensor};
          return acquire;
        },
        wire::kRegionsPerFunction - 2);  // one is the fixture's, one for programs
    begin_again();
  });
}

// Written to before: it is cleared behind the command.
void WorstQuantaOfCommands::release_regions() {
  expect_bounded("REGION_RELEASE of what was written", [&] {
    begin_again();
    StreamHandle stream;
    std::vector<raw::RegionHandle> regions;
    while (const auto region = tenant_.driver.acquire(8 * wire::kMiB)) {
      const auto end = tenant_.driver.run(tenant_.driver.fill(stream, *region, 0, region->bytes, ~std::uint64_t{0}));
      ASSERT_EQ(end.outcome, Outcome::Ok);
      regions.push_back(*region);
    }
    ASSERT_FALSE(regions.empty());
    std::vector<std::uint16_t> slots;
    for (const auto& region : regions) {
      auto release = request(AdminCommand::RegionRelease);
      release.arguments.region_release = {region.id, region.generation};
      slots.push_back(tenant_.driver.send_admin(release));
    }
    for (const std::uint16_t slot : slots) ASSERT_TRUE(tenant_.driver.wait_admin(slot).has_value());
  });
}

void WorstQuantaOfCommands::open_streams() {
  expect_bounded("STREAM_OPEN", [&] {
    flood_tenant([&] { return request(AdminCommand::StreamOpen); }, wire::kStreamsPerFunction - 1);
    begin_again();
  });
  // The stream that is opened was closed just before: those that waited for it have not looked again.
  expect_bounded("STREAM_OPEN under 126 waits for the stream that was", [&] {
    const auto streams = open_all();
    wait_for_first(streams);
    const std::uint16_t slots[] = {
        tenant_.driver.send_admin(tenant_.driver.stream_request(AdminCommand::StreamClose, streams.front())),
        tenant_.driver.send_admin(request(AdminCommand::StreamOpen))};
    for (const std::uint16_t slot : slots) {
      const auto reply = tenant_.driver.wait_admin(slot);
      ASSERT_TRUE(reply.has_value());
      ASSERT_EQ(reply->outcome, Outcome::Ok) << wire::name(reply->status);
    }
    settle();
    begin_again();
  });
}

void WorstQuantaOfCommands::reset_streams() {
  expect_bounded("STREAM_RESET of a full stream", [&] {
    const StreamHandle zero;
    auto stream = tenant_.driver.open_stream().value();
    fill_stream(stream, zero);
    (void)tenant_.driver.reset_stream(stream);
    begin_again();
  });
  expect_bounded("STREAM_RESET under 127 waits for it", [&] {
    StreamHandle zero;
    wait_everywhere();
    (void)tenant_.driver.reset_stream(zero);
    settle();
    begin_again();
  });
}

void WorstQuantaOfCommands::close_streams() {
  expect_bounded("STREAM_CLOSE", [&] {
    const auto streams = open_all();
    auto next = streams.begin();
    flood_tenant([&] { return tenant_.driver.stream_request(AdminCommand::StreamClose, *next++); },
                 static_cast<unsigned>(streams.size()));
  });
  expect_bounded("STREAM_CLOSE under 126 waits for it", [&] {
    const auto streams = open_all();
    wait_for_first(streams);
    (void)tenant_.driver.admin(tenant_.driver.stream_request(AdminCommand::StreamClose, streams.front()));
    settle();
    begin_again();
  });
}

void WorstQuantaOfCommands::cancel_blocks() {
  expect_bounded("CANCEL of the last block", [&] {
    const StreamHandle zero;
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

// The PF's, whose owner is the library: one at a time, which is what a quantum has.
void WorstQuantaOfCommands::test_oneself() {
  constexpr int kTests = 8;
  for (const auto kind : {wire::SelfTestKind::Echo, wire::SelfTestKind::EnterExit, wire::SelfTestKind::Switch}) {
    expect_bounded("SELFTEST of kind " + std::to_string(static_cast<unsigned>(kind)), [&] {
      svp::Device& device = card_.context().device();
      auto test = svp::test::admin_request(AdminCommand::SelfTest);
      test.arguments.self_test = {kind, 1'000'000, device.host_memory_offset()};
      for (int i = 0; i < kTests; ++i) {
        keep_neighbour_busy();
        const auto reply = svp::value_or_throw(device.admin(test));
        ASSERT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
        EXPECT_LT(reply.values.self_test.rounds, 1'000'000u) << "it did not end for the neighbour";
      }
    });
  }
}

// Faults that never come, in all rows.
void WorstQuantaOfCommands::arm_faults() {
  expect_bounded_flood("FAULT_ARM, refused", AdminCommand::FaultArm, Outcome::Rejected);
  expect_bounded("FAULT_ARM", [&] {
    std::uint32_t row = 0;
    flood_manager(
        [&] {
          auto arm = manager_.driver.admin_request(AdminCommand::FaultArm);
          wire::FaultSpec& fault = arm.arguments.fault;
          fault.operation = wire::FaultOperation::Arm;
          fault.point = wire::FaultPoint::DmaStep;
          fault.action = wire::FaultAction::Abort;
          fault.fault = row++;
          fault.trigger = wire::occurrences(1'000'000'000);
          return arm;
        },
        wire::kFaultRows);
    auto disarm = manager_.driver.admin_request(AdminCommand::FaultArm);
    disarm.arguments.fault.operation = wire::FaultOperation::DisarmAll;
    (void)expect_ok(manager_.driver, disarm);
  });
}

void WorstQuantaOfCommands::reset_functions() {
  const auto flood_with_resets = [&](const std::string& what, const std::function<void()>& prepare) {
    expect_bounded("FUNCTION_RESET " + what, [&] {
      prepare();
      (void)expect_ok(manager_.driver, about(AdminCommand::FunctionReset));
      begin_again();
    });
    expect_bounded("status 0 " + what, [&] {
      prepare();
      begin_again();
    });
  };
  flood_with_resets("under waits of all streams", [&] { wait_everywhere(); });
  flood_with_resets("under waits by a grant", [&] { wait_for(grant()); });
  flood_with_resets("with full streams", [&] {
    const StreamHandle zero;
    for (int i = 0; i < 4; ++i) {
      auto stream = tenant_.driver.open_stream().value();
      fill_stream(stream, zero);
    }
  });
  flood_with_resets("with command buffers of 64 blocks", [&] {
    StreamHandle nowhere;
    for (unsigned i = 0; i < 64; ++i) (void)make_buffer(tenant_.driver.nop(nowhere));
  });
  flood_with_resets("with as many command buffers as there can be", [&] {
    StreamHandle nowhere;
    auto create = request(AdminCommand::BufferCreate);
    create.arguments.buffer_create = {kSource, 1, 0};
    (void)make_buffer(tenant_.driver.nop(nowhere), 1);
    for (unsigned i = 1; i < wire::kCommandBuffers; ++i) (void)expect_ok(tenant_.driver, create);
  });
}

// Once: a fixed slot is never bound again.
void WorstQuantaOfCommands::retire_slots() {
  wait_everywhere();
  expect_bounded_at_once("SLOT_RETIRE under waits of all streams", [&] {
    (void)expect_ok(manager_.driver, about(AdminCommand::SlotRetire));
    // An iteration counts when it has ended, which may be after its replies are read.
    (void)expect_ok(manager_.driver, about(AdminCommand::FunctionQuery, kOtherTarget));
  });
}

void WorstQuantaOfCommands::bind_slots() {
  qemu::Machine& machine = card_.context().card().machine();
  (void)expect_ok(manager_.driver, about(AdminCommand::SlotRetire));
  // The owner before had a peer, too.
  ASSERT_TRUE(machine.disconnect_peer(kTenant, qemu::kHostPeer).has_value());
  expect_bounded("SLOT_BIND and SLOT_RETIRE", [&] {
    const auto window = machine.plug_window(0, 4 * wire::kMiB);
    ASSERT_TRUE(window.has_value());
    const auto peer = machine.connect_peer(kTenant);
    ASSERT_TRUE(peer.has_value());
    auto bind = about(AdminCommand::SlotBind);
    bind.arguments.bind = {kTenantTarget, kFirstPort + window->port, window->serial, peer->slot, peer->id};
    (void)expect_ok(manager_.driver, bind);
    (void)expect_ok(manager_.driver, about(AdminCommand::SlotRetire));
    ASSERT_TRUE(machine.disconnect_peer(peer->slot, peer->id).has_value());
    while (!machine.window_gone(window->serial).value()) manager_.driver.pump();
  });
}

// What is emptied is full: each block leaves entries.
void WorstQuantaOfCommands::trace() {
  const auto switched = [&](std::uint32_t on) {
    auto trace = request(AdminCommand::Trace);
    trace.arguments.trace.on = on;
    return trace;
  };
  expect_bounded("TRACE", [&] { flood_tenant([&] { return switched(1); }); });
  StreamHandle stream;
  expect_bounded("TRACE, full", [&] {
    (void)expect_ok(tenant_.driver, switched(1));
    for (int i = 0; i < 4; ++i) flood_blocks([&] { return tenant_.driver.nop(stream); });
    flood_tenant([&] { return switched(1); });
  });
  (void)expect_ok(tenant_.driver, switched(0));
}

void WorstQuantaOfCommands::create_buffers() {
  StreamHandle nowhere;
  const auto row = [&](const std::string& what, const wire::ControlBlock& block, std::uint32_t data_bytes) {
    expect_bounded("BUFFER_CREATE, 64 " + what, [&] {
      for (int i = 0; i < 4; ++i) destroy(make_buffer(block, wire::kMaxBufferBlocks, data_bytes));
    });
  };
  RawDriver& driver = tenant_.driver;
  row("NOPs", driver.nop(nowhere), 0);
  row("NOPs and all data", driver.nop(nowhere), wire::kMaxBufferDataBytes);
  row("transfers", driver.dma(nowhere, RawDriver::device(region_, 0), RawDriver::device(region_, wire::kMiB), 128), 0);
  row("nests", deepest_nest(nowhere), 0);
  const auto image = empty_kernel();
  load(0, image);
  row("launches", launch(nowhere, 0, image.size()), 0);
}

void WorstQuantaOfCommands::destroy_buffers() {
  StreamHandle nowhere;
  expect_bounded("BUFFER_DESTROY", [&] {
    constexpr std::size_t kBuffers = 16;
    std::vector<BufferName> buffers;
    buffers.reserve(kBuffers);
    for (std::size_t i = 0; i < kBuffers; ++i)
      buffers.push_back(make_buffer(tenant_.driver.nop(nowhere), wire::kMaxBufferBlocks, wire::kMaxBufferDataBytes));
    auto next = buffers.begin();
    flood_tenant(
        [&] {
          auto destroy = request(AdminCommand::BufferDestroy);
          destroy.arguments.buffer_destroy = {next->buffer, 0, next->epoch};
          ++next;
          return destroy;
        },
        static_cast<unsigned>(buffers.size()));
  });
}

void WorstQuantaOfCommands::grant_events() {
  expect_bounded("EVENT_GRANT", [&] {
    std::vector<StreamHandle> streams;
    while (auto stream = other_.driver.open_stream()) streams.push_back(*stream);
    ASSERT_GE(streams.size(), wire::kGrantsPerFunction);
    auto next = streams.begin();
    flood_manager(
        [&] {
          return manager_.driver.grant_request(kOtherTarget, other_.driver, *next++, kTenantTarget, tenant_.driver);
        },
        wire::kGrantsPerFunction);
    begin_again();
    for (const StreamHandle& stream : streams) {
      (void)other_.driver.admin(other_.driver.stream_request(AdminCommand::StreamClose, stream));
    }
  });
}

void WorstQuantaOfCommands::revoke_grants() {
  expect_bounded("EVENT_REVOKE", [&] {
    for (int i = 0; i < 16; ++i) revoke(grant());
  });
  expect_bounded("EVENT_REVOKE under 127 waits by it", [&] {
    const auto handle = grant();
    wait_for(handle);
    revoke(handle);
    settle();
    begin_again();
  });
}

TEST_P(WorstQuantaOfCommands, AreBounded) { measure(GetParam()); }

std::vector<AdminCommand> commands() {
  std::vector<AdminCommand> all;
  for (unsigned i = 1; i <= static_cast<unsigned>(wire::kLastAdminCommand); ++i) {
    all.push_back(static_cast<AdminCommand>(i));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, WorstQuantaOfCommands, testing::ValuesIn(commands()),
                         [](const auto& row) { return std::string(wire::name(row.param)); });

}  // namespace
}  // namespace counts
