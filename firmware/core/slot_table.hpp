// SPDX-License-Identifier: Apache-2.0
// Which slot belongs to which function. A mapping of a window cannot be revoked, so a slot serves one owner in its life:
// once retired it is never bound again before a power cycle (protocol §1). That must hold across warm resets as well, so
// the table lies in persistent memory, with a checksum: when it cannot be believed, every slot but M's counts as retired.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "shared/units.hpp"

namespace fw {

class SlotTable {
 public:
  static constexpr unsigned kMaxSlots = 256;
  static constexpr unsigned kMaxFunctions = 32;

  enum class Use : std::uint8_t { Fresh = 0, Bound = 1, Retired = 2 };

  // As it lies in persistent memory.
  struct Stored {
    std::array<Use, kMaxSlots> use;
    std::array<std::uint8_t, kMaxFunctions> slot_of;  // kNone: the function has none
    std::uint32_t crc32c;
    std::uint8_t reserved[92];
  };
  static_assert(sizeof(Stored) == 3 * wire::kStickBytes);

  // Cold: function f has slot f, for the first `functions`. Warm: as before the reset.
  void init(Stored& stored, bool warm, unsigned functions);

  Use use(unsigned slot) const { return slot < kMaxSlots ? stored_->use[slot] : Use::Retired; }
  std::optional<unsigned> slot_of(unsigned function) const;

  // The slot must be fresh, the function without a slot.
  void bind(unsigned function, unsigned slot);
  // For good. No-op for a function without a slot.
  void retire(unsigned function);

 private:
  static constexpr std::uint8_t kNone = 0xff;
  std::uint32_t checksum() const;

  Stored* stored_ = nullptr;
};

}  // namespace fw
