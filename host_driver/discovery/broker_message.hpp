// SPDX-License-Identifier: Apache-2.0
// What a broker and its clients say to each other: one JSON object per message of a SOCK_SEQPACKET socket. A client
// sends one request and gets one reply; after anything but a grant the broker closes. An owner says nothing more, it
// only keeps the connection.
//
// On the tenant socket:
//   {"type": "hello", "abi": 5, "want": "VF"}      → granted (with descriptors, see Grant) or refused
//   {"type": "describe"}                           → card
//   {"type": "reset", "target": 1}                 → done or refused: of the function that the asking process owns
//   {"type": "offer-timeline", "target": 1, "generation": G, "stream": 3, "incarnation": 1}
//                                                  → offered or refused: of a stream of that function
//   {"type": "redeem-timeline", "target": 2, "generation": G, "token": "…"}
//                                                  → timeline-granted or refused: to that function
// On the management socket also:
//   {"type": "reset", "target": 1}                 → of any function
//   {"type": "raise", "level": "card reset"}        → done or refused; or "firmware restart"
//   {"type": "power-cycle"}, {"type": "stop"}      → done or refused, when it is done
//   {"type": "collect", "file": "/…", "now": true} → done or refused: a core file of the firmware is written there
//   {"type": "statistics", "target": 1}            → statistics or refused: what the card has counted of the function
//   {"type": "debug", "offer": true}               → done or refused: a debugger may attach at kDebuggerName of the folder
// A client that has asked nothing for Timeouts::hello is answered {"type": "late"}: it connects and asks again.
// On a kernel that cannot name the peer by a descriptor (Linux before 6.5) the broker answers every request first with
// {"type": "prove", "nonce": N}, and the client sends {"type": "proof", "nonce": N}: see peer_process.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "host_driver/base/error.hpp"
#include "host_driver/device/timeline_sharing.hpp"
#include "host_driver/discovery/card_description.hpp"
#include "host_driver/discovery/function_choice.hpp"
#include "host_driver/discovery/function_statistics.hpp"
#include "host_driver/recovery/reset_level.hpp"

namespace svp {

inline constexpr std::size_t kMaxBrokerMessage = 4096;

// ---- requests
struct HelloRequest {
  std::uint32_t abi = 0;
  FunctionChoice want{};
  friend bool operator==(const HelloRequest&, const HelloRequest&) = default;
};
struct DescribeRequest {
  friend bool operator==(const DescribeRequest&, const DescribeRequest&) = default;
};
struct ResetRequest {
  wire::Target target = wire::kTargetPhysical;
  friend bool operator==(const ResetRequest&, const ResetRequest&) = default;
};
// Firmware or Card; higher ones follow when it does not help.
struct RaiseRequest {
  ResetLevel level = ResetLevel::Firmware;
  friend bool operator==(const RaiseRequest&, const RaiseRequest&) = default;
};
struct PowerCycleRequest {
  friend bool operator==(const PowerCycleRequest&, const PowerCycleRequest&) = default;
};
struct StopRequest {
  friend bool operator==(const StopRequest&, const StopRequest&) = default;
};
struct CollectRequest {
  std::string file{};  // absolute; written by the broker, who is the client's user
  bool now = false;    // what the harts do now, even when there is a record
  friend bool operator==(const CollectRequest&, const CollectRequest&) = default;
};
struct DebugRequest {
  bool offer = true;  // false: no longer
  friend bool operator==(const DebugRequest&, const DebugRequest&) = default;
};
// For everybody who waits for the card.
struct HeldRequest {
  friend bool operator==(const HeldRequest&, const HeldRequest&) = default;
};
struct StatisticsRequest {
  wire::Target target = wire::kTargetPhysical;
  friend bool operator==(const StatisticsRequest&, const StatisticsRequest&) = default;
};
// Both are for whoever owns the function.
struct OfferTimelineRequest {
  Timeline timeline{};
  friend bool operator==(const OfferTimelineRequest&, const OfferTimelineRequest&) = default;
};
struct RedeemTimelineRequest {
  wire::Target target = wire::kTargetPhysical;
  std::uint64_t generation = 0;
  TimelineToken token{};
  friend bool operator==(const RedeemTimelineRequest&, const RedeemTimelineRequest&) = default;
};
struct ProofRequest {
  std::uint64_t nonce = 0;
  friend bool operator==(const ProofRequest&, const ProofRequest&) = default;
};
using BrokerRequest = std::variant<HelloRequest, DescribeRequest, ResetRequest, RaiseRequest, PowerCycleRequest,
                                   StopRequest, CollectRequest, DebugRequest, StatisticsRequest, ProofRequest,
                                   OfferTimelineRequest, RedeemTimelineRequest, HeldRequest>;

// ---- replies
// Comes with kGrantDescriptors descriptors in this order: window (memfd), doorbell to the card (pipe, write end),
// doorbell from the card (pipe, read end), death pipe (read end: readable when the emulator ended, its text says how;
// hang-up alone: the broker ended).
struct Grant {
  std::string card{};
  wire::Target target = wire::kTargetPhysical;
  unsigned slot = 0;
  std::uint64_t window_bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t boot_epoch = 0;
  std::uint64_t quota_bytes = 0;
  friend bool operator==(const Grant&, const Grant&) = default;
};
inline constexpr std::size_t kGrantDescriptors = 4;
struct Done {
  std::string how{};  // for people: the reset levels that were tried and what they took; may be empty
  friend bool operator==(const Done&, const Done&) = default;
};
struct Held {
  bool by_debugger = false;
  friend bool operator==(const Held&, const Held&) = default;
};
struct Prove {
  std::uint64_t nonce = 0;
  friend bool operator==(const Prove&, const Prove&) = default;
};
struct Late {
  friend bool operator==(const Late&, const Late&) = default;
};
struct TimelineOffered {
  TimelineToken token{};
  friend bool operator==(const TimelineOffered&, const TimelineOffered&) = default;
};
using BrokerReply = std::variant<Grant, CardDescription, Done, ErrorInfo, Prove, FunctionStatistics, TimelineOffered,
                                 TimelineGrant, Held, Late>;

// At most kMaxBrokerMessage bytes; the texts of an error are cut when they are too long.
std::string encode(const BrokerRequest& request);
std::string encode(const BrokerReply& reply);

// The other side's text: strict, never more than the message's size. The error names the member; a hello of another ABI
// version is refused by naming both versions, whatever else it contains.
Expected<BrokerRequest> parse_broker_request(std::string_view text);
Expected<BrokerReply> parse_broker_reply(std::string_view text);

}  // namespace svp
