// SPDX-License-Identifier: Apache-2.0
// Attempts of a hostile driver, made from a seed: control blocks, descriptor chains and admin requests that are almost
// right or not right at all. Pure: the same seed and the same Targets give the same attempts.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "shared/admin.hpp"
#include "shared/control_block.hpp"
#include "shared/window.hpp"
#include "tests/validation/raw/raw_driver.hpp"

namespace raw {

// A command buffer, as BUFFER_CREATE named it.
struct BufferHandle {
  std::uint32_t id = 0;
  std::uint32_t blocks = 1;
  std::uint64_t epoch = 0;
  bool launch = false;  // one COMPUTE and nothing else
};

inline constexpr unsigned kSignalled = 4;

// What the attacker knows of itself and of those it would like to reach.
struct Targets {
  std::uint64_t window_bytes = 0;
  std::uint64_t generation = 0;  // of its function
  wire::FunctionKind kind = wire::FunctionKind::Virtual;
  std::uint32_t function_index = 0;
  std::uint32_t functions = 0;        // virtual ones of the card
  RegionHandle tensor{};              // its own
  RegionHandle program{};             // its own
  RegionHandle released{};            // was its own
  std::vector<RegionHandle> foreign;  // as their owners call them
  std::vector<GrantHandle> grants;    // of events, that others have, or that it had
  std::vector<BufferHandle> buffers;  // its own, or that it had
  std::uint32_t signalled = 0;        // its stream whose timeline is at kSignalled, or would be
  std::uint64_t image_offset = 0;     // of a good image in `program`
  std::uint64_t image_bytes = 0;      // 0: there is none
};

class Attempts {
 public:
  Attempts(const Targets& targets, std::uint64_t seed) : targets_(targets), random_(seed) {}

  // Device ticks, of a block's budget.
  static constexpr unsigned kLongestWait = 1 << 20;

  // A block on `stream` (which is told what sequence to expect next) with up to three things wrong; one in eight is
  // good. Each ends by itself: a wait within kLongestWait, a call when the waits of its buffer have ended.
  wire::ControlBlock control_block(const StreamHandle& stream);

  // A block of a command buffer, in three of four cases a good one. A wait has a budget as above.
  wire::ControlBlock entry();
  // Where BUFFER_CREATE and PATCH look for entries in host memory: the caller writes kEntries of them there. Transfers
  // of good blocks do not come so far.
  static constexpr unsigned kEntries = 16;
  static constexpr std::uint64_t entries() { return wire::kHostMemoryOffset + 5 * wire::kMiB; }

  // An admin request with any command, or with this one, and any arguments. Never one that the function is entitled to
  // and that would end the attack or be the others' fair loss: resets and quotas that it may set, the release of its
  // own regions. Self-tests are short, or end as soon as another function has work. The cookie is the caller's.
  wire::AdminRequest admin_request();
  wire::AdminRequest admin_request(wire::AdminCommand command);

  // A chain for the ring of control blocks.
  struct Chain {
    std::vector<RawBuffer> buffers;  // as they stand in the ring
    std::uint16_t more_flags = 0;    // on top of those that the form of the chain asks for, on its head
    bool partly_published = false;   // the last buffer says NEXT, and nothing follows
    std::uint16_t slots() const { return static_cast<std::uint16_t>(buffers.size()); }
  };
  Chain chain();
  // What may stand in an indirect table, for chains with kDescIndirect: the words of host memory at table().
  std::uint64_t table() const { return wire::kHostMemoryOffset + 4 * wire::kMiB; }
  std::vector<wire::DescriptorWords> table_words();

  std::uint64_t word();  // any, with a liking for edges
  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }

 private:
  wire::ControlBlock base(const StreamHandle& stream);
  void make_transfer(wire::ControlBlock& block);
  void make_launch(wire::ControlBlock& block);
  void make_event(wire::ControlBlock& block);
  void make_bufferable(wire::ControlBlock& block);
  void make_call(wire::ControlBlock& block);
  void make_patch(wire::ControlBlock& block);
  BufferHandle some_buffer_handle();
  void spoil(wire::ControlBlock& block);
  void bound_wait(wire::ControlBlock& block);
  void stride(wire::ControlBlock& block, wire::Endpoint from, const wire::Endpoint& to);
  void spoil_loops(wire::StridedPayload& loops);
  void spoil_header(wire::ControlBlockHeader& header);
  void spoil_payload(wire::ControlBlock& block);
  void spoil_compute(wire::ComputePayload& compute);
  void spoil_segment(wire::Segment& segment);
  void spoil_endpoint(wire::Endpoint& end);
  RegionHandle some_region();
  std::uint64_t some_region_id();
  std::uint32_t some_generation();
  std::uint64_t some_offset();
  std::uint64_t some_window_offset();
  wire::Endpoint some_endpoint();
  wire::Target some_target(wire::AdminCommand command);
  RawBuffer some_buffer();
  void make_arguments(wire::AdminRequest& request);
  void make_buffer_arguments(wire::AdminRequest& request);
  bool may_touch(wire::AdminCommand command, wire::Target target) const;

  const Targets& targets_;
  std::mt19937_64 random_;
  std::uint64_t signalled_ = 0;  // the last value of a good EVENT_SIGNAL: larger than that of any timeline
  std::uint32_t signaller_ = 0;  // the stream that it was for
};

}  // namespace raw
