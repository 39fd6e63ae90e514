// SPDX-License-Identifier: Apache-2.0
// Grants of timelines: a function's streams wait for another function's stream only by one. M makes them (EVENT_GRANT);
// the reset of either function revokes them, and so does STREAM_OPEN, which begins another timeline. Each function has
// a table of those that it holds, which nobody else fills or can name. Every wait is judged by it anew. Hart 0 only.
//
// A grant has an index in its grantee's table and an epoch. Epochs grow with every grant of the grantee, and over
// boots.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>

#include "firmware/core/stream.hpp"
#include "firmware/core/timelines.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/control_block.hpp"

namespace fw {

class FunctionTable;
class PollPlan;

// A stream of any function.
struct StreamPlace {
  std::uint32_t function;
  std::uint32_t stream;
  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};

class EventGrants {
 public:
  struct Name {
    std::uint32_t index;
    std::uint64_t epoch;
  };

  EventGrants(FunctionTable& functions, PollPlan& plan) : functions_(functions), plan_(plan) {}
  void init(std::uint64_t boot_epoch) { boot_epoch_ = boot_epoch; }

  // Of a stream that is not closed, to another function; neither is being reset. The same again gives the same grant.
  // Nothing: the table is full.
  std::optional<Name> make(const StreamPlace& timeline, std::uint32_t grantee);

  // What the grantee may wait for by this grant. Errors: GrantRevoked, when it had the grant once; UnknownGrant.
  std::expected<StreamPlace, wire::Status> find(std::uint32_t grantee, const Name& name) const;

  // Waiters look at their grants again, and find that they are gone.
  void revoke(std::uint32_t grantee, std::uint32_t index);  // find() has found it
  void revoke_timeline(std::uint32_t owner, unsigned stream);
  void revoke_function(std::uint32_t function);  // those that it holds, and those of its timelines

  // ---- of StreamTable

  // The first stream of the grantee in the list of those that wait by this grant, which exists.
  std::uint8_t& first_waiter(std::uint32_t grantee, std::uint32_t index) { return at(grantee, index).first_waiter; }
  // A stream of it has joined the list, for this value.
  void note_wait(std::uint32_t grantee, std::uint32_t index, std::uint64_t value);
  // Waiters for values up to this look again; `grant` begins a timeline's list. How many grants and waits were looked
  // at.
  [[gnu::cold, gnu::noinline]] std::uint32_t call_waiters(std::uint16_t grant, std::uint64_t value);

 private:
  struct Grant {
    StreamPlace timeline{};
    std::uint64_t epoch = 0;             // 0: there is none
    std::uint64_t lowest = kNever;       // nobody waits for less
    std::uint16_t next = kNoEventGrant;  // of the same timeline
    std::uint8_t first_waiter = kNoWaiter;
  };
  static constexpr unsigned kFunctions = wire::boot::kMaxVirtualFunctions + 2;
  static_assert(kFunctions * wire::kGrantsPerFunction < kNoEventGrant);

  static std::uint16_t place_of(std::uint32_t grantee, std::uint32_t index) {
    return static_cast<std::uint16_t>(grantee * wire::kGrantsPerFunction + index);
  }
  Grant& at(std::uint32_t grantee, std::uint32_t index) { return grants_[place_of(grantee, index)]; }
  const Grant& at(std::uint32_t grantee, std::uint32_t index) const { return grants_[place_of(grantee, index)]; }
  // Whether such a grant was made for this function, in this boot.
  bool was_made(std::uint32_t grantee, std::uint64_t epoch) const {
    return epoch >> 32 == boot_epoch_ && static_cast<std::uint32_t>(epoch) - 1 < made_[grantee];
  }
  void revoke_place(std::uint16_t place);

  FunctionTable& functions_;
  PollPlan& plan_;
  std::uint64_t boot_epoch_ = 0;
  std::array<Grant, kFunctions * wire::kGrantsPerFunction> grants_{};
  std::array<std::uint32_t, kFunctions> made_{};  // since boot, per grantee
};

}  // namespace fw
