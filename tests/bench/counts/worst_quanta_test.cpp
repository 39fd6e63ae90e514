// SPDX-License-Identifier: Apache-2.0
// Of admin commands.
#include <memory>
#include <thread>

#include "tests/bench/counts/worst_quanta.hpp"

namespace counts {
namespace {

using raw::StreamHandle;
using wire::AdminCommand;
using wire::Outcome;

TEST_F(WorstQuanta, OfCommandsThatLookAtLittle) {
  for (const auto command : {AdminCommand::Stats, AdminCommand::Query, AdminCommand::FunctionQuery}) {
    expect_bounded(std::string(wire::name(command)), {command},
                   [&] { flood_tenant([&] { return request(command); }); });
  }
  // A restart ends the loop, and TIMELINE_CREATE is not built: there is nothing but the refusal.
  for (const auto command : {AdminCommand::TimelineCreate, AdminCommand::FirmwareRestart}) {
    expect_bounded(std::string(wire::name(command)) + ", refused", {command},
                   [&] { flood_tenant([&] { return request(command); }, Outcome::Rejected); });
  }
  for (const auto command : {AdminCommand::SelfTest, AdminCommand::FaultArm}) {
    expect_bounded(std::string(wire::name(command)) + ", refused", {},
                   [&] { flood_tenant([&] { return request(command); }, Outcome::Rejected); });
  }
}

TEST_F(WorstQuanta, OfManagement) {
  for (const auto command : {AdminCommand::Stats, AdminCommand::FunctionQuery, AdminCommand::QuotaSet}) {
    expect_bounded(std::string(wire::name(command)) + " by M", {command},
                   [&] { flood_management([&] { return request_about(command, kTenantTarget); }); });
  }
  for (raw::RawDriver* driver : {&tenant_.driver, &other_.driver}) (void)open_all(*driver);
  expect_bounded("QUERY by M, of all streams", {AdminCommand::Query},
                 [&] { flood_management([&] { return manager_.driver.admin_request(AdminCommand::Query); }); });
}

// Each row of the table, of a fault that never fires; of one of kernels, each space is prepared as well.
TEST_F(WorstQuanta, OfFaults) {
  const auto fault = [&](wire::FaultOperation operation, std::uint32_t row) {
    auto arm = manager_.driver.admin_request(AdminCommand::FaultArm);
    wire::FaultSpec& spec = arm.arguments.fault;
    spec = {};
    spec.operation = operation;
    spec.fault = row;
    if (operation != wire::FaultOperation::Arm) return arm;
    spec.point = wire::FaultPoint::Kernel;
    spec.action = wire::FaultAction::Slow;
    spec.argument = 2;
    spec.trigger = wire::occurrences(std::uint64_t{1} << 40);
    return arm;
  };
  expect_bounded("FAULT_ARM", {AdminCommand::FaultArm}, [&] {
    for (const auto operation :
         {wire::FaultOperation::Arm, wire::FaultOperation::Query, wire::FaultOperation::Disarm}) {
      std::uint32_t row = 0;
      flood_management([&] { return fault(operation, row++); }, wire::kFaultRows);
    }
  });
}

// The PF is the context's: several threads, so that several requests are in its ring at once.
TEST_F(WorstQuanta, OfSelfTests) {
  const svp::PinnedBuffer words = card_.context().host_memory().allocate(2 * wire::kStickBytes);
  for (const auto kind : {wire::SelfTestKind::Echo, wire::SelfTestKind::EnterExit, wire::SelfTestKind::Switch}) {
    auto test = wire::AdminRequest{};
    test.command = AdminCommand::SelfTest;
    test.arguments.self_test = {.kind = kind, .rounds = ~std::uint32_t{0}, .offset = words.window_offset()};
    expect_bounded("SELFTEST " + std::to_string(static_cast<unsigned>(kind)), {AdminCommand::SelfTest}, [&] {
      constexpr int kThreads = 4, kTests = 8;
      std::atomic<int> running = kThreads;
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
          for (int n = 0; n < kTests; ++n) {
            EXPECT_EQ(svp::value_or_throw(card_.context().device().admin(test)).outcome, Outcome::Ok);
          }
          --running;
        });
      }
      while (running != 0) manager_.driver.pump();
    });
  }
}

TEST_F(WorstQuanta, OfRegions) {
  expect_bounded("REGION_ACQUIRE, refused", {}, [&] {
    flood_tenant(
        [&] {
          auto acquire = request(AdminCommand::RegionAcquire);
          acquire.arguments.region_acquire = {17 * wire::kGiB, wire::RegionType::Tensor};
          return acquire;
        },
        Outcome::Rejected);
  });
  expect_bounded("REGION_ACQUIRE and REGION_RELEASE", {AdminCommand::RegionAcquire, AdminCommand::RegionRelease}, [&] {
    for (int i = 0; i < 4; ++i) {
      std::vector<raw::RegionHandle> regions;
      while (const auto region = tenant_.driver.acquire(2 * wire::kMiB)) regions.push_back(*region);
      for (const auto& region : regions) EXPECT_EQ(tenant_.driver.release(region).outcome, Outcome::Ok);
    }
  });
}

TEST_F(WorstQuanta, OfStreams) {
  const auto close = [&](const StreamHandle& stream) {
    ask(tenant_.driver, tenant_.driver.stream_request(AdminCommand::StreamClose, stream));
  };
  expect_bounded("STREAM_OPEN and STREAM_CLOSE", {AdminCommand::StreamOpen, AdminCommand::StreamClose}, [&] {
    for (const StreamHandle& stream : open_all()) close(stream);
  });
  const auto with_a_full_stream = [&](const std::function<void(StreamHandle&)>& ends) {
    return [&, ends] {
      StreamHandle zero;
      auto stream = tenant_.driver.open_stream().value();
      fill_stream(stream, zero);
      ends(stream);
      begin_again();
    };
  };
  expect_bounded("STREAM_CLOSE of a full stream", {AdminCommand::StreamClose}, with_a_full_stream(close));
  expect_bounded("STREAM_RESET of a full stream", {AdminCommand::StreamReset},
                 with_a_full_stream([&](StreamHandle& stream) {
                   EXPECT_EQ(tenant_.driver.reset_stream(stream).outcome, Outcome::Ok);
                 }));
  expect_bounded("STREAM_RESET under 127 waits for it", {AdminCommand::StreamReset}, [&] {
    StreamHandle zero;
    for (StreamHandle& stream : open_all()) {
      tenant_.driver.submit(tenant_.driver.event_wait(stream, zero, 1));
    }
    settle();
    EXPECT_EQ(tenant_.driver.reset_stream(zero).outcome, Outcome::Ok);
    settle();
    begin_again();
  });
  expect_bounded("CANCEL of the last block", {AdminCommand::Cancel}, with_a_full_stream([&](StreamHandle& stream) {
                   std::uint64_t sequence = stream.next_sequence;
                   flood_tenant(
                       [&] {
                         auto cancel = request(AdminCommand::Cancel);
                         cancel.arguments.cancel = {stream.id, stream.incarnation, --sequence};
                         return cancel;
                       },
                       Outcome::Ok, wire::kStreamCredits - 1);
                 }));
}

TEST_F(WorstQuanta, OfBuffersAndTraces) {
  StreamHandle nowhere;
  expect_bounded("BUFFER_CREATE, 64 transfers", {AdminCommand::BufferCreate, AdminCommand::BufferDestroy}, [&] {
    const auto buffer = make_buffer(tenant_.driver, tenant_.driver.dma(nowhere, raw::RawDriver::host(kSource),
                                                                       raw::RawDriver::device(region_, 0), 128));
    auto destroy = request(AdminCommand::BufferDestroy);
    destroy.arguments.buffer_destroy = {buffer.buffer, 0, buffer.epoch};
    ask(tenant_.driver, destroy);
  });
  expect_bounded("TRACE", {AdminCommand::Trace}, [&] {
    flood_tenant([&] {
      auto trace = request(AdminCommand::Trace);
      trace.arguments.trace.on = 1;
      return trace;
    });
  });
}

TEST_F(WorstQuanta, OfGrants) {
  StreamHandle zero;
  const auto revoke = [&](const raw::GrantHandle& granted) {
    ask(manager_.driver, manager_.driver.revoke_request(kTenantTarget, granted));
  };
  expect_bounded("EVENT_GRANT and EVENT_REVOKE", {AdminCommand::EventGrant, AdminCommand::EventRevoke}, [&] {
    for (int i = 0; i < 16; ++i) revoke(grant(zero, kTenantTarget, tenant_.driver));
  });
  expect_bounded("EVENT_REVOKE under 127 waits", {AdminCommand::EventRevoke}, [&] {
    const auto granted = grant(zero, kTenantTarget, tenant_.driver);
    std::size_t waits = 0;
    for (StreamHandle& stream : open_all()) {
      tenant_.driver.submit(tenant_.driver.granted_wait(stream, granted, zero, 1));
      ++waits;
    }
    settle();
    revoke(granted);
    for (const raw::Ended& end : tenant_.driver.wait_for(waits)) {
      ASSERT_EQ(end.completion.status, wire::Status::GrantRevoked) << wire::name(end.completion.status);
    }
    begin_again();
  });
}

// Its blocks end in steps of their streams.
TEST_F(WorstQuanta, OfQueueResets) {
  expect_bounded("reset of a full control-block queue", {}, [&] {
    StreamHandle zero;
    for (int i = 0; i < 4; ++i) {
      auto stream = tenant_.driver.open_stream().value();
      fill_stream(stream, zero);
    }
    ASSERT_TRUE(tenant_.driver.reset_queue(wire::kControlBlockQueue));
    begin_again();
  });
}

// A reset stops a function at once, whatever it holds. It is the one thing that is longer than a quantum; a burst of
// resets is delayed (fw::kResetTicks).
constexpr std::uint64_t kMostOfAReset = 90'000;

TEST_F(WorstQuanta, OfFunctionResets) {
  expect_bounded(
      "status 0 with streams, grants and buffers", {},
      [&] {
        hold_everything(tenant_.driver, kTenantTarget, region_);
        begin_again();
      },
      kMostOfAReset);
  expect_bounded(
      "FUNCTION_RESET of the same", {AdminCommand::FunctionReset},
      [&] {
        hold_everything(tenant_.driver, kTenantTarget, region_);
        ask(manager_.driver, request_about(AdminCommand::FunctionReset, kTenantTarget));
        begin_again();
      },
      kMostOfAReset);
}

// A fixed slot is bound once: one for each time that it is measured.
TEST_F(WorstQuanta, OfSlots) {
  auto client = std::make_unique<Client>(card_, kThird);
  unsigned next = kSpare;
  expect_bounded(
      "SLOT_RETIRE and SLOT_BIND", {AdminCommand::SlotRetire, AdminCommand::SlotBind},
      [&] {
        ASSERT_TRUE(client->driver.bring_up());
        const auto region = client->driver.acquire(4 * wire::kMiB).value();
        hold_everything(client->driver, kThirdTarget, region);
        ask(manager_.driver, request_about(AdminCommand::SlotRetire, kThirdTarget));
        auto bind = manager_.driver.admin_request(AdminCommand::SlotBind);
        bind.arguments.bind = {.target = kThirdTarget, .slot = next, .serial = 0, .doorbell = 0, .peer = 0};
        ask(manager_.driver, bind);
        client = std::make_unique<Client>(card_, next++);
      },
      kMostOfAReset);
}

}  // namespace
}  // namespace counts
