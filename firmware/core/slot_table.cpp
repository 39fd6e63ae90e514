// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/slot_table.hpp"

#include <algorithm>
#include <cstddef>

#include "shared/crc32c.hpp"

namespace fw {

std::uint32_t SlotTable::checksum() const { return wire::crc32c(0, stored_, offsetof(Stored, crc32c)); }

void SlotTable::init(Stored& stored, bool warm, unsigned functions) {
  stored_ = &stored;
  if (warm && stored.crc32c == checksum()) return;
  stored.use.fill(warm ? Use::Retired : Use::Fresh);
  stored.serial.fill(warm ? ~std::uint32_t{0} : 0);
  stored.place.fill({.slot = kNone});
  // Nobody but the broker ever held M's slot.
  const unsigned believed = warm ? 1 : functions;
  for (std::uint32_t f = 0; f < believed; ++f) {
    stored.use[f] = Use::Bound;
    stored.place[f] = {.slot = f, .doorbell = f};
  }
  stored.crc32c = checksum();
}

std::optional<Place> SlotTable::place_of(unsigned function) const {
  if (function >= kMaxFunctions || stored_->place[function].slot == kNone) return std::nullopt;
  return stored_->place[function];
}

bool SlotTable::doorbell_in_use(std::uint32_t doorbell) const {
  return std::ranges::any_of(stored_->place,
                             [&](const Place& place) { return place.slot != kNone && place.doorbell == doorbell; });
}

bool SlotTable::never_bound(unsigned slot, std::uint32_t serial, bool renewable) const {
  if (!renewable) return use(slot) == Use::Fresh;
  const Use now = use(slot);
  return (now == Use::Fresh || now == Use::Retired) && serial > stored_->serial[slot];
}

void SlotTable::bind(unsigned function, const Place& place) {
  stored_->use[place.slot] = Use::Bound;
  stored_->serial[place.slot] = place.serial;
  stored_->place[function] = place;
  stored_->crc32c = checksum();
}

void SlotTable::retire(unsigned function) {
  const auto place = place_of(function);
  if (!place) return;
  stored_->use[place->slot] = Use::Leaving;
  stored_->place[function] = {.slot = kNone};
  stored_->crc32c = checksum();
}

void SlotTable::finish_leaving(unsigned slot) {
  if (use(slot) != Use::Leaving) return;
  stored_->use[slot] = Use::Retired;
  stored_->crc32c = checksum();
}

}  // namespace fw
