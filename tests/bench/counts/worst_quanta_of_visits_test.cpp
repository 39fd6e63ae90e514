// SPDX-License-Identifier: Apache-2.0
// The longest iteration of hart 0's loop that a function can cause with everything that a visit looks at: blocks and
// commands at once, and messages of the control FIFO.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/counts/worst_quanta.hpp"

namespace counts {
namespace {

using raw::RawDriver;
using raw::StreamHandle;
using wire::AdminCommand;
using wire::ControlBlock;
using wire::MessageOp;
using wire::Outcome;

class WorstQuantaOfVisits : public WorstQuanta {
 protected:
  static constexpr std::uint64_t kTransferred = kSource + wire::kMiB / 2;  // behind the blocks of a buffer

  struct Blocks {
    std::string what;
    std::function<ControlBlock(StreamHandle&)> make;
  };
  struct Commands {
    std::string what;
    std::function<wire::AdminRequest()> make;
    Outcome outcome;
  };
  std::vector<Blocks> blocks();
  std::vector<Commands> commands();
};

std::vector<WorstQuantaOfVisits::Blocks> WorstQuantaOfVisits::blocks() {
  RawDriver& driver = tenant_.driver;
  return {{"NOPs", [&](StreamHandle& stream) { return driver.nop(stream); }},
          {"transfers of 256 KiB",
           [&](StreamHandle& stream) {
             return driver.dma(stream, RawDriver::host(kTransferred), RawDriver::device(region_, 0), 256 * wire::kKiB);
           }},
          {"nests", [&](StreamHandle& stream) { return deepest_nest(stream); }}};
}

std::vector<WorstQuantaOfVisits::Commands> WorstQuantaOfVisits::commands() {
  // All but the last one are judged before it is refused.
  StreamHandle nowhere;
  write_buffer(deepest_nest(nowhere), wire::kMaxBufferBlocks);
  tenant_.driver.at<ControlBlock>(kSource)[wire::kMaxBufferBlocks - 1].header.magic = 0;
  const auto with = [&](AdminCommand command, const std::function<void(wire::AdminRequest&)>& set) {
    return [this, command, set] {
      auto made = request(command);
      set(made);
      return made;
    };
  };
  return {{"QUERY", [&] { return request(AdminCommand::Query); }, Outcome::Ok},
          {"REGION_ACQUIRE, refused",
           with(AdminCommand::RegionAcquire,
                [](auto& made) { made.arguments.region_acquire = {12 * wire::kGiB, wire::RegionType(7)}; }),
           Outcome::Rejected},
          {"TRACE", with(AdminCommand::Trace, [](auto& made) { made.arguments.trace.on = 1; }), Outcome::Ok},
          {"CANCEL of a later block",
           with(AdminCommand::Cancel, [](auto& made) { made.arguments.cancel = {0, 1, std::uint64_t{1} << 40}; }),
           Outcome::Rejected},
          {"BUFFER_CREATE, the last block refused",
           with(AdminCommand::BufferCreate,
                [](auto& made) { made.arguments.buffer_create = {kSource, wire::kMaxBufferBlocks, 0}; }),
           Outcome::Rejected}};
}

TEST_F(WorstQuantaOfVisits, OfBlocksAndCommandsAreBounded) {
  for (const Blocks& block : blocks()) {
    for (const Commands& command : commands()) {
      expect_bounded(block.what + " beside " + command.what,
                     [&] { flood_queues(block.make, command.make, command.outcome); });
    }
  }
}

class WorstQuantaOfMessages : public WorstQuanta, public testing::WithParamInterface<MessageOp> {
 protected:
  // All rows of a message. One that is not here does not compile.
  void measure(MessageOp operation);

  template <typename T>
  void expect_bounded_flood(MessageOp operation, const T& payload) {
    expect_bounded(std::string(wire::name(operation)),
                   [&] { flood_messages([&] { return tenant_.driver.request(operation, payload); }); });
  }
  void reset_queues();
  void reset_functions();
};

void WorstQuantaOfMessages::measure(MessageOp operation) {
  switch (operation) {
    case MessageOp::GetDeviceInfo:
    case MessageOp::GetDeviceFeatures:
    case MessageOp::GetDeviceStatus:
    case MessageOp::EventConfig:  // the card's: refused
      return expect_bounded(std::string(wire::name(operation)),
                            [&] { flood_messages([&] { return tenant_.driver.bare_request(operation); }); });
    case MessageOp::SetDriverFeatures:  // too late: refused
      return expect_bounded_flood(operation, wire::FeatureBlocks{0, 2, {0, 0}});
    case MessageOp::GetConfig: return expect_bounded_flood(operation, wire::ConfigRange{0, wire::kConfigChunk});
    case MessageOp::GetVirtqueue: return expect_bounded_flood(operation, wire::QueueIndex{wire::kControlBlockQueue});
    case MessageOp::SetVirtqueue:  // it is set up already: refused
      return expect_bounded_flood(operation, wire::SetQueue{wire::kControlBlockQueue, 0, 1, 0, 0, 0, 0});
    case MessageOp::ResetVirtqueue: return reset_queues();
    case MessageOp::SetDeviceStatus: return reset_functions();
  }
  FAIL() << "no message";
}

// One after the other in the FIFO; the first one is taken, the others are refused while it runs.
void WorstQuantaOfMessages::reset_queues() {
  const auto four = [&] {
    for (const std::uint32_t queue : {wire::kControlBlockQueue, wire::kAdminQueue, wire::kControlBlockQueue}) {
      tenant_.driver.send(tenant_.driver.request(MessageOp::ResetVirtqueue, wire::QueueIndex{queue}));
    }
    const auto last =
        tenant_.driver.call(tenant_.driver.request(MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kEventQueue}));
    ASSERT_TRUE(last.has_value());
    begin_again();
  };
  expect_bounded("RESET_VQUEUE under 127 waits for stream 0", [&] {
    wait_everywhere();
    four();
  });
  expect_bounded("RESET_VQUEUE with full streams", [&] {
    const StreamHandle zero;
    for (int i = 0; i < 4; ++i) {
      auto stream = tenant_.driver.open_stream().value();
      fill_stream(stream, zero);
    }
    four();
  });
}

void WorstQuantaOfMessages::reset_functions() {
  expect_bounded("status 0 four times, under 127 waits", [&] {
    wait_everywhere();
    for (int i = 0; i < 3; ++i) {
      tenant_.driver.send(tenant_.driver.request(MessageOp::SetDeviceStatus, wire::StatusValue{0}));
    }
    begin_again();
  });
}

TEST_P(WorstQuantaOfMessages, AreBounded) { measure(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Each, WorstQuantaOfMessages,
                         testing::Values(MessageOp::GetDeviceInfo, MessageOp::GetDeviceFeatures,
                                         MessageOp::SetDriverFeatures, MessageOp::GetConfig, MessageOp::GetDeviceStatus,
                                         MessageOp::SetDeviceStatus, MessageOp::GetVirtqueue, MessageOp::SetVirtqueue,
                                         MessageOp::ResetVirtqueue, MessageOp::EventConfig),
                         [](const auto& row) { return std::string(wire::name(row.param)); });

// Blocks, commands and messages at once.
TEST_F(WorstQuantaOfVisits, OfAllThreeAreBounded) {
  for (const Commands& command : commands()) {
    expect_bounded("transfers of 256 KiB beside " + command.what + " and GET_CONFIG", [&] {
      const auto block = blocks()[1].make;
      unsigned made = 0;
      flood_queues(
          [&](StreamHandle& stream) {
            if (++made % 8 == 0) {
              tenant_.driver.send(
                  tenant_.driver.request(MessageOp::GetConfig, wire::ConfigRange{0, wire::kConfigChunk}));
            }
            return block(stream);
          },
          command.make, command.outcome);
    });
  }
}

}  // namespace
}  // namespace counts
