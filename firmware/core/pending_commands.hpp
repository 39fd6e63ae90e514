// SPDX-License-Identifier: Apache-2.0
// Admin commands of a function that wait: for a kernel to stop, or for memory to be scrubbed. As many as the ring has
// slots, so that a well-formed command always finds a place, or waits in the ring. Hart 0 only.
#pragma once

#include <array>
#include <cstdint>

#include "shared/admin.hpp"
#include "shared/window.hpp"

namespace fw {

struct PendingAdmin {
  wire::AdminRequest request;
  std::uint64_t reply;  // window offset, checked
  std::uint16_t chain_id;
  std::uint16_t chain_slots;
  std::uint64_t mark;  // about a reset: answered when the target's count has come so far; of a stream: its incarnation
};

class PendingCommands {
 public:
  bool any() const { return count_ != 0; }
  bool full() const { return count_ == entries_.size(); }
  std::uint32_t count() const { return count_; }

  // A free place, not full(): stays free until keep().
  PendingAdmin& free_place() {
    unsigned i = 0;
    while (waits_[i]) ++i;
    return entries_[i];
  }
  // It waits, until done() or forget().
  void keep(PendingAdmin& entry) {
    waits_[index_of(entry)] = true;
    ++count_;
  }
  // The one at the next place, when it waits; else null. Goes around the places, so that each is looked at.
  PendingAdmin* next_place() {
    cursor_ = (cursor_ + 1) % kPlaces;
    return waits_[cursor_] ? &entries_[cursor_] : nullptr;
  }
  void done(PendingAdmin& entry) {
    waits_[index_of(entry)] = false;
    --count_;
  }
  void forget() {
    waits_ = {};
    count_ = 0;
  }
  // Of a mutant: no command is taken any more.
  void block() { count_ = static_cast<std::uint32_t>(entries_.size()); }

  static constexpr unsigned kPlaces = wire::kAdminSlots;

 private:
  unsigned index_of(const PendingAdmin& entry) const { return static_cast<unsigned>(&entry - entries_.data()); }

  std::array<PendingAdmin, kPlaces> entries_;
  std::array<bool, kPlaces> waits_{};
  unsigned cursor_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace fw
