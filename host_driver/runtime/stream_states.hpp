// SPDX-License-Identifier: Apache-2.0
// The two lifecycles of a stream on the host: what is being done with it (activity), and whether it works (condition).
// They do not depend on each other: each pair of an activity and a condition may be. docs/states.md draws them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "host_driver/base/state_machine.hpp"

namespace svp {

enum class StreamActivity : std::uint8_t {
  Open,                // launches are accepted, and sent unless the condition forbids it
  Resetting,           // the card resets the stream, and what it had is over
  Retrying,            // likewise, and what the reset removed unstarted is sent again
  QueueReset,          // the card resets all streams
  QuiescingResetting,  // Quiescing, and the reset of another thread has not ended
  QuiescingRetrying,   // likewise
  Quiescing,           // another device is wanted: launches that are being written come to their end
  Recovering,          // nothing is launched until there is another device
  Closed,
};
inline constexpr std::array<std::string_view, 9> kStreamActivityNames{
    "open",      "resetting",  "retrying", "queue reset", "quiescing, resetting", "quiescing, retrying",
    "quiescing", "recovering", "closed"};
inline constexpr std::array kStreamActivityEdges{
    state_edge(StreamActivity::Open, StreamActivity::Resetting, "reset"),
    state_edge(StreamActivity::Open, StreamActivity::Retrying, "reset by RecoveryPolicy::Recover"),
    state_edge(StreamActivity::Open, StreamActivity::QueueReset, "reset of all queues"),
    state_edge(StreamActivity::Open, StreamActivity::Quiescing, "recovery begins"),
    state_edge(StreamActivity::Open, StreamActivity::Closed, "runtime ends"),
    state_edge(StreamActivity::Resetting, StreamActivity::Open, "reset ended"),
    state_edge(StreamActivity::Resetting, StreamActivity::QuiescingResetting, "recovery begins"),
    state_edge(StreamActivity::Resetting, StreamActivity::Closed, "runtime ends"),
    state_edge(StreamActivity::Retrying, StreamActivity::Open, "reset ended"),
    state_edge(StreamActivity::Retrying, StreamActivity::QuiescingRetrying, "recovery begins"),
    state_edge(StreamActivity::Retrying, StreamActivity::Closed, "runtime ends"),
    state_edge(StreamActivity::QueueReset, StreamActivity::Open, "reset ended"),
    state_edge(StreamActivity::QueueReset, StreamActivity::Closed, "runtime ends"),
    state_edge(StreamActivity::QuiescingResetting, StreamActivity::Quiescing, "reset ended"),
    state_edge(StreamActivity::QuiescingResetting, StreamActivity::Resetting, "recovery gave up"),
    state_edge(StreamActivity::QuiescingRetrying, StreamActivity::Quiescing, "reset ended"),
    state_edge(StreamActivity::QuiescingRetrying, StreamActivity::Retrying, "recovery gave up"),
    state_edge(StreamActivity::Quiescing, StreamActivity::Recovering, "no launch is half written"),
    state_edge(StreamActivity::Quiescing, StreamActivity::Open, "recovery gave up"),
    state_edge(StreamActivity::Recovering, StreamActivity::Open, "another device, or recovery failed or gave up"),
    state_edge(StreamActivity::Recovering, StreamActivity::Closed, "runtime ends"),
};
constexpr StateTable state_table(StreamActivity) {
  return {"stream activity", kStreamActivityNames, kStreamActivityEdges};
}

// The last two only with RecoveryPolicy::Recover: everything that the card had has ended, and somebody is to recover.
enum class StreamCondition : std::uint8_t {
  Usable,
  Poisoned,     // by its first error; nothing is sent any more
  NeedsReset,   // Poisoned, and its reset is due
  Gone,         // the card is gone, or does not reset the stream
  NeedsDevice,  // Gone, and another device is due
};
inline constexpr std::array<std::string_view, 5> kStreamConditionNames{"usable", "poisoned", "needs reset", "gone",
                                                                       "needs device"};
inline constexpr std::array kStreamConditionEdges{
    state_edge(StreamCondition::Usable, StreamCondition::Poisoned, "first error"),
    state_edge(StreamCondition::Usable, StreamCondition::Gone, "card gone, or recovery failed"),
    state_edge(StreamCondition::Poisoned, StreamCondition::NeedsReset, "nothing in flight"),
    state_edge(StreamCondition::Poisoned, StreamCondition::Gone, "card gone, or recovery failed"),
    state_edge(StreamCondition::Poisoned, StreamCondition::Usable, "reset, or another device"),
    state_edge(StreamCondition::NeedsReset, StreamCondition::Usable, "reset, or another device"),
    state_edge(StreamCondition::NeedsReset, StreamCondition::NeedsDevice, "card gone"),
    state_edge(StreamCondition::NeedsReset, StreamCondition::Gone, "recovery failed"),
    state_edge(StreamCondition::Gone, StreamCondition::NeedsDevice, "nothing in flight"),
    state_edge(StreamCondition::Gone, StreamCondition::Usable, "another device"),
    state_edge(StreamCondition::NeedsDevice, StreamCondition::Usable, "another device"),
    state_edge(StreamCondition::NeedsDevice, StreamCondition::Gone, "recovery failed"),
};
constexpr StateTable state_table(StreamCondition) {
  return {"stream condition", kStreamConditionNames, kStreamConditionEdges};
}

// A transfer of pageable memory within its launch.
enum class TransferStage : std::uint8_t {
  Waiting,   // for what stands before it in the stream
  Filling,   // chunks are asked for and sent
  Detached,  // nothing more of it will be submitted: it ends with its last chunk
};
inline constexpr std::array<std::string_view, 3> kTransferStageNames{"waiting", "filling", "detached"};
inline constexpr std::array kTransferStageEdges{
    state_edge(TransferStage::Waiting, TransferStage::Filling, "head of the stream"),
    state_edge(TransferStage::Waiting, TransferStage::Detached, "the stream failed"),
    state_edge(TransferStage::Filling, TransferStage::Detached, "last chunk sent, or the stream failed"),
    state_edge(TransferStage::Detached, TransferStage::Waiting, "sent again"),
};
constexpr StateTable state_table(TransferStage) {
  return {"staged transfer", kTransferStageNames, kTransferStageEdges};
}

// ---- what the states mean -------------------------------------------------------------------------------------------

constexpr bool is_reset_under_way(StreamActivity activity) {
  switch (activity) {
    case StreamActivity::Resetting:
    case StreamActivity::Retrying:
    case StreamActivity::QueueReset:
    case StreamActivity::QuiescingResetting:
    case StreamActivity::QuiescingRetrying: return true;
    default: return false;
  }
}
// A recovery with another device has begun.
constexpr bool is_recovering(StreamActivity activity) {
  switch (activity) {
    case StreamActivity::QuiescingResetting:
    case StreamActivity::QuiescingRetrying:
    case StreamActivity::Quiescing:
    case StreamActivity::Recovering: return true;
    default: return false;
  }
}
// When the reset that is under way has ended.
constexpr StreamActivity after_reset(StreamActivity activity) {
  return is_recovering(activity) ? StreamActivity::Quiescing : StreamActivity::Open;
}
// When a recovery begins. Empty: nothing changes, one is under way already.
constexpr std::optional<StreamActivity> begin_quiescing(StreamActivity activity) {
  switch (activity) {
    case StreamActivity::Open: return StreamActivity::Quiescing;
    case StreamActivity::Resetting: return StreamActivity::QuiescingResetting;
    case StreamActivity::Retrying: return StreamActivity::QuiescingRetrying;
    default: return std::nullopt;
  }
}
// When it gives up before it has done anything. Empty: nothing changes.
constexpr std::optional<StreamActivity> cancel_quiescing(StreamActivity activity) {
  switch (activity) {
    case StreamActivity::QuiescingResetting: return StreamActivity::Resetting;
    case StreamActivity::QuiescingRetrying: return StreamActivity::Retrying;
    case StreamActivity::Quiescing: return StreamActivity::Open;
    default: return std::nullopt;
  }
}

constexpr bool is_gone(StreamCondition condition) {
  return condition == StreamCondition::Gone || condition == StreamCondition::NeedsDevice;
}
constexpr bool is_recovery_due(StreamCondition condition) {
  return condition == StreamCondition::NeedsReset || condition == StreamCondition::NeedsDevice;
}
// After the stream's first error. Empty: nothing changes, it is not the first.
constexpr std::optional<StreamCondition> after_error(StreamCondition condition) {
  return condition == StreamCondition::Usable ? std::optional(StreamCondition::Poisoned) : std::nullopt;
}
constexpr std::optional<StreamCondition> after_card_gone(StreamCondition condition) {
  switch (condition) {
    case StreamCondition::Usable:
    case StreamCondition::Poisoned: return StreamCondition::Gone;
    case StreamCondition::NeedsReset: return StreamCondition::NeedsDevice;
    default: return std::nullopt;
  }
}
// When nothing is in flight any more, and somebody is to recover the stream.
constexpr std::optional<StreamCondition> recovery_due(StreamCondition condition) {
  switch (condition) {
    case StreamCondition::Poisoned: return StreamCondition::NeedsReset;
    case StreamCondition::Gone: return StreamCondition::NeedsDevice;
    default: return std::nullopt;
  }
}

// A recording of an event.
enum class EventStage : std::uint8_t { Recorded, Signalled, Failed };
inline constexpr std::array<std::string_view, 3> kEventStageNames{"recorded", "signalled", "failed"};
inline constexpr std::array kEventStageEdges{
    state_edge(EventStage::Recorded, EventStage::Signalled, "the card has signalled it"),
    state_edge(EventStage::Recorded, EventStage::Failed, "its stream failed before it, or was reset"),
};
constexpr StateTable state_table(EventStage) { return {"event", kEventStageNames, kEventStageEdges}; }

}  // namespace svp
