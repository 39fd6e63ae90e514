// SPDX-License-Identifier: Apache-2.0
// CANCEL (docs/protocol.md §6): one block, whenever it comes: before its start, while it runs, behind its end, twice.
// The reply and the completion say the same, and there is one of each.
#include <algorithm>
#include <map>

#include "tests/conformance/provider.hpp"

namespace svp::conformance {
namespace {

using test::Blocks;
using test::cancel;
using test::CompletionRecorder;
using wire::Outcome;
using wire::Status;

// 64 MiB are many iterations of the card: what lies behind one of these has not started yet, or not long ago.
class Cancel : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 64 * wire::kMiB;

  Cancel()
      : device_(provider().open()),
        stream_(value_or_throw(device_->open_stream(StreamPriority::Low))),
        region_(value_or_throw(device_->acquire_region(RegionType::Tensor, kBytes))),
        fill_(test::Workbench::fill({region_.base.region_id, 0, region_.generation, wire::EndpointKind::Region, {}},
                                    kBytes, 7)) {}
  ~Cancel() override { expect_healthy(*device_); }

  void submit(CompletionRecorder& recorder, std::initializer_list<wire::ControlBlock> blocks) {
    std::vector<ControlBlockRequest> requests;
    for (const auto& block : blocks) requests.push_back({&block, &recorder});
    ASSERT_EQ(value_or_throw(device_->submit(stream_, requests)), requests.size());
  }
  // By sequence; each exactly once.
  std::map<std::uint64_t, wire::Completion> ends(CompletionRecorder& recorder, std::size_t count) {
    EXPECT_EQ(device_->wait_until([&] { return recorder.ended() >= count; }, test::soon()), WaitStatus::Done);
    std::map<std::uint64_t, wire::Completion> by_sequence;
    for (const auto& end : recorder.all()) EXPECT_TRUE(by_sequence.emplace(end.sequence, end).second) << end.sequence;
    EXPECT_EQ(by_sequence.size(), count);
    return by_sequence;
  }

  std::unique_ptr<Device> device_;
  std::uint32_t stream_;
  Region region_;
  wire::ControlBlock fill_;
};

TEST_F(Cancel, WhatHasNotStartedIsTakenOutAndItsSuccessorsGoOn) {
  CompletionRecorder recorder;
  submit(recorder, {fill_, Blocks::nop(), Blocks::nop(), Blocks::nop()});
  const auto reply = cancel(*device_, stream_, 3);
  const auto all = ends(recorder, 4);
  for (const std::uint64_t other : {1u, 2u, 4u}) EXPECT_EQ(all.at(other).outcome, Outcome::Ok) << other;
  if (reply.outcome == Outcome::Ok) {
    EXPECT_EQ(all.at(3).outcome, Outcome::Aborted);
    EXPECT_EQ(all.at(3).status, Status::Stopped);
    EXPECT_EQ(all.at(3).start_time, 0u);
  } else {
    EXPECT_EQ(reply.status, Status::AlreadyEnded) << "the machine was so slow that it had ended";
    EXPECT_EQ(all.at(3).outcome, Outcome::Ok);
  }
  CompletionRecorder more;
  submit(more, {Blocks::nop()});
  EXPECT_EQ(ends(more, 1).begin()->second.outcome, Outcome::Ok) << "cancelling is no error of the stream";
}

TEST_F(Cancel, WhatRunsIsStoppedAndEndsFault) {
  bool stopped = false;
  for (int round = 0; round < 20 && !stopped; ++round) {
    CompletionRecorder recorder;
    submit(recorder, {fill_, Blocks::nop()});
    const auto status =
        device_->wait_until([&] { return test::started_sequence(*device_, stream_) != 0; }, test::soon());
    ASSERT_EQ(status, WaitStatus::Done);
    const auto reply = cancel(*device_, stream_, 1);
    const auto all = ends(recorder, 2);
    stopped = reply.outcome == Outcome::Ok;
    if (stopped) {
      EXPECT_EQ(all.at(1).outcome, Outcome::Fault);
      EXPECT_EQ(all.at(1).status, Status::Stopped);
      EXPECT_EQ(all.at(2).outcome, Outcome::Aborted) << "what follows may have counted on it";
    } else {
      EXPECT_EQ(reply.status, Status::AlreadyEnded);
      EXPECT_EQ(all.at(1).outcome, Outcome::Ok);
    }
    value_or_throw(device_->reset_stream(stream_));
  }
  EXPECT_TRUE(stopped) << "twenty transfers of 64 MiB were over before they could be cancelled";
}

TEST_F(Cancel, WhatHasEndedOrNeverWasIsRefused) {
  CompletionRecorder recorder;
  submit(recorder, {Blocks::nop(), Blocks::nop()});
  ends(recorder, 2);
  for (const std::uint64_t sequence :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, ~std::uint64_t{0}}) {
    const auto reply = cancel(*device_, stream_, sequence);
    EXPECT_EQ(reply.outcome, Outcome::Rejected) << sequence;
    EXPECT_EQ(reply.status, Status::AlreadyEnded) << sequence;
  }
}

TEST_F(Cancel, TwiceIsOnce) {
  unsigned cancelled = 0;
  for (int round = 0; round < 20; ++round) {
    CompletionRecorder recorder;
    submit(recorder, {fill_, Blocks::nop(), Blocks::nop()});
    const auto first = cancel(*device_, stream_, 2);
    const auto second = cancel(*device_, stream_, 2);
    EXPECT_EQ(second.outcome, Outcome::Rejected);
    EXPECT_EQ(second.status, Status::AlreadyEnded);
    const auto all = ends(recorder, 3);
    EXPECT_EQ(all.at(2).outcome, first.outcome == Outcome::Ok ? Outcome::Aborted : Outcome::Ok);
    cancelled += first.outcome == Outcome::Ok ? 1 : 0;
    value_or_throw(device_->reset_stream(stream_));
  }
  EXPECT_NE(cancelled, 0u);
}

TEST_F(Cancel, AStreamThatIsNotThereOrNotAnyMoreIsRefused) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::Cancel;
  request.arguments.cancel = {wire::kStreamsPerFunction, 1, 1};
  EXPECT_EQ(value_or_throw(device_->admin(request)).status, Status::UnknownStream);
  request.arguments.cancel = {stream_, device_->stream_incarnation(stream_) + 1, 1};
  EXPECT_EQ(value_or_throw(device_->admin(request)).status, Status::StaleIncarnation);
}

}  // namespace
}  // namespace svp::conformance
