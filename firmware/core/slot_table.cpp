// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/slot_table.hpp"

#include <cstddef>

#include "shared/crc32c.hpp"

namespace fw {

std::uint32_t SlotTable::checksum() const { return wire::crc32c(0, stored_, offsetof(Stored, crc32c)); }

void SlotTable::init(Stored& stored, bool warm, unsigned functions) {
  stored_ = &stored;
  if (warm && stored.crc32c == checksum()) return;
  stored.use.fill(warm ? Use::Retired : Use::Fresh);
  stored.slot_of.fill(kNone);
  // Nobody but the broker ever held M's slot.
  const unsigned believed = warm ? 1 : functions;
  for (unsigned f = 0; f < believed; ++f) {
    stored.use[f] = Use::Bound;
    stored.slot_of[f] = static_cast<std::uint8_t>(f);
  }
  stored.crc32c = checksum();
}

std::optional<unsigned> SlotTable::slot_of(unsigned function) const {
  if (function >= kMaxFunctions || stored_->slot_of[function] == kNone) return std::nullopt;
  return stored_->slot_of[function];
}

void SlotTable::bind(unsigned function, unsigned slot) {
  stored_->use[slot] = Use::Bound;
  stored_->slot_of[function] = static_cast<std::uint8_t>(slot);
  stored_->crc32c = checksum();
}

void SlotTable::retire(unsigned function) {
  const auto slot = slot_of(function);
  if (!slot) return;
  stored_->use[*slot] = Use::Retired;
  stored_->slot_of[function] = kNone;
  stored_->crc32c = checksum();
}

}  // namespace fw
