// SPDX-License-Identifier: Apache-2.0
// Which window belongs to which function. A mapping of a window cannot be revoked, so a window serves one owner: a
// fixed slot is bound once, a renewable one only with a window whose serial is larger than any that the slot had before
// (protocol §1). That must hold across warm resets as well, so the table lies in persistent memory, with a checksum:
// when it cannot be believed, M has its slot and every serial counts as used.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "shared/units.hpp"

namespace fw {

// Where a function is reached: a window, and a peer at a doorbell device.
struct Place {
  std::uint32_t slot = 0;
  std::uint32_t serial = 0;    // 0: a fixed slot's
  std::uint32_t doorbell = 0;  // fixed slot
  std::uint32_t peer = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

class SlotTable {
 public:
  static constexpr unsigned kMaxSlots = 256;
  static constexpr unsigned kMaxFunctions = 32;

  // Leaving: taken from its function, and perhaps still plugged; nothing is bound there before finish_leaving().
  enum class Use : std::uint8_t { Fresh = 0, Bound = 1, Leaving = 2, Retired = 3 };

  // As it lies in persistent memory.
  struct Stored {
    std::array<Use, kMaxSlots> use;
    std::array<std::uint32_t, kMaxSlots> serial;  // the largest that was bound there
    std::array<Place, kMaxFunctions> place;       // .slot is kNone: the function has none
    std::uint32_t crc32c;
    std::uint8_t reserved[124];
  };
  static_assert(sizeof(Stored) == 15 * wire::kStickBytes);

  // Cold: function f has fixed slot f, for the first `functions`. Warm: as before the reset.
  void init(Stored& stored, bool warm, unsigned functions);

  Use use(unsigned slot) const { return slot < kMaxSlots ? stored_->use[slot] : Use::Retired; }
  std::optional<Place> place_of(unsigned function) const;
  bool doorbell_in_use(std::uint32_t doorbell) const;
  // Whether a window with this serial was never bound there.
  bool never_bound(unsigned slot, std::uint32_t serial, bool renewable) const;

  // The window was never bound, the function has no place.
  void bind(unsigned function, const Place& place);
  // The slot is Leaving afterwards. No-op for a function without one.
  void retire(unsigned function);
  // What was plugged there is gone.
  void finish_leaving(unsigned slot);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t checksum() const;

  Stored* stored_ = nullptr;
};

}  // namespace fw
