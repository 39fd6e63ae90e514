// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/boot.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "firmware/core/binding.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/self_test.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"

namespace fw {

namespace {

// Survives a warm reset: how often the card booted, whose slots are whose, and behind it the pool's bitmaps. All zero:
// the card has been off. Anything else that is not whole fails the boot, because memory of dead owners would be granted
// as clean; a power cycle makes it so.
struct Persistent {
  static constexpr std::uint64_t kMagic = 0x3353524550595353;
  static constexpr std::uint32_t kVersion = 4;
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t crc32c;  // over boot_epoch
  std::uint64_t boot_epoch;
  std::uint8_t reserved[104];
  SlotTable::Stored slots;
};
static_assert(sizeof(Persistent) == 16 * wire::kStickBytes);

std::uint32_t checksum(const Persistent& persistent) {
  return wire::crc32c(0, &persistent.boot_epoch, sizeof persistent.boot_epoch);
}

// The step is reached; fault injection may want it to be the last one.
void reach(Card& card, CardState state) {
  if (card.state() != state) card.set_state(state);
  while (post_code(state) == card.options.stop_at) hal::sleep_until(hal::now() + wire::kTicksPerSecond);
}

// True: the memory of an earlier boot is there and can be believed. False: there was none.
std::expected<bool, const char*> judge_persistent(const Persistent& persistent) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&persistent, 1));
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return false;
  if (persistent.magic != Persistent::kMagic && !mutated(Mutant::Persistent, wire::Status::BadMagic)) {
    return std::unexpected("persistent memory has a wrong magic word: power-cycle the card");
  }
  if (persistent.version != Persistent::kVersion && !mutated(Mutant::Persistent, wire::Status::Unsupported)) {
    return std::unexpected("persistent memory is of another version: power-cycle the card");
  }
  if (persistent.crc32c != checksum(persistent) && !mutated(Mutant::Persistent, wire::Status::BadCrc)) {
    return std::unexpected("persistent memory has a wrong checksum: power-cycle the card");
  }
  return true;
}

std::expected<void, const char*> init_persistent(Card& card) {
  if (hal::persistent_bytes() < sizeof(Persistent) + RegionPool::bitmap_bytes()) {
    return std::unexpected("persistent memory too small");
  }
  auto& persistent = *reinterpret_cast<Persistent*>(hal::persistent());
  const auto judged = judge_persistent(persistent);
  if (!judged) return std::unexpected(judged.error());
  const bool warm = *judged;
  card.set_boot_epoch(warm ? persistent.boot_epoch + (mutated(Mutant::BootEpoch) ? 0 : 1) : 1);
  persistent.magic = Persistent::kMagic;
  persistent.version = Persistent::kVersion;
  persistent.boot_epoch = card.boot_epoch();
  persistent.crc32c = checksum(persistent);
  card.event_grants.init(card.boot_epoch());
  card.slots.init(persistent.slots, warm, card.options.virtual_functions + 2);
  card.pool.init(hal::region_memory(), hal::persistent() + sizeof(Persistent), warm, card.options);
  return {};
}

// The slot that the function had when the card was reset, or its first one. A function whose slot was retired has none.
bool start_function(Card& card, unsigned id, wire::FunctionKind kind, std::uint32_t index) {
  create_function(card, id, kind, index);
  const auto place = card.slots.place_of(id);
  return !place || bind_slot(card, card.functions[id], *place);
}

// Of mutants: whole, but for one thing.
void lose_a_part(wire::FatalRecord& record) {
  for (auto& hart : record.harts) {
    if (mutated(Mutant::RecordedPc)) hart.pc = 0;
    if (mutated(Mutant::RecordedWaypoint)) hart.waypoint = wire::Waypoint::None;
  }
  for (auto& event : record.events) {
    if (mutated(Mutant::RecordedEvents)) event = {};
  }
  if (mutated(Mutant::RecordedWaiting)) record.waiting_for = 0;
  record.crc32c = 0;
  record.crc32c = wire::crc32c(0, &record, sizeof record);
}

// M shows what an earlier boot left behind; nobody else sees it (it holds addresses and registers).
void publish_record(Function& management) {
  static_assert(sizeof(wire::FatalRecord) <= wire::kFatalRecord.bytes && sizeof(wire::FatalRecord) % 8 == 0);
  const wire::FatalRecord* record = hal::previous_record();
  if (record != nullptr) {
    wire::store_shared_words(management.at<std::uint64_t>(wire::kFatalRecord.offset),
                             reinterpret_cast<const std::uint64_t*>(record), sizeof *record / 8);
    const bool part = mutated(Mutant::RecordedPc) || mutated(Mutant::RecordedWaypoint) ||
                      mutated(Mutant::RecordedEvents) || mutated(Mutant::RecordedWaiting);
    if (part) lose_a_part(*management.at<wire::FatalRecord>(wire::kFatalRecord.offset));
  }
  wire::store_release(management.header().record_bytes, std::uint64_t{record == nullptr ? 0 : sizeof *record});
}

// A card that broke shows first that it works.
bool wants_self_test(const Card& card) {
  const wire::FatalRecord* record = hal::previous_record();
  return card.options.self_test || (record != nullptr && record->boot_epoch + 1 == card.boot_epoch());
}

bool map_unbound_slots(const Card& card) {
  for (unsigned slot = 0; slot < hal::slot_count(); ++slot) {
    if (card.slots.use(slot) != SlotTable::Use::Fresh || hal::slot_renewable(slot)) continue;
    if (!hal::map_slot(slot)) return false;
    publish_header(hal::window(slot), {wire::FunctionKind::Unbound, 0, slot, 0}, card.boot_epoch());
  }
  return true;
}

}  // namespace

std::expected<void, const char*> boot(Card& card) {
  hal::mark(wire::Waypoint::Boot);
  card.set_state(CardState::Memory);
  const auto options = parse_boot_options(hal::boot_arguments());
  if (!options) return std::unexpected("boot argument not understood");
  card.options = *options;
  if (!choose_mutant(options->mutant, options->mutant_status)) return std::unexpected("boot argument not understood");
  if (hal::slot_count() < card.options.virtual_functions + 2) return std::unexpected("fewer slots than functions");
  if (card.options.sole_function > card.options.virtual_functions + 1) {
    return std::unexpected("the sole function does not exist");
  }
  reach(card, CardState::Memory);
  reach(card, CardState::RegionPool);
  if (const auto kept = init_persistent(card); !kept) return kept;
  finish_retirements(card);
  // M first: from here on POST codes can be read from outside.
  card.set_state(CardState::Slots);
  if (!start_function(card, kManagement, wire::FunctionKind::Management, 0)) {
    return std::unexpected("slot 0 not usable");
  }
  publish_record(card.functions[kManagement]);
  reach(card, CardState::Slots);
  reach(card, CardState::Cores);
  card.init_cores(hal::hart_count());
  reach(card, CardState::Functions);
  if (!start_function(card, kPhysical, wire::FunctionKind::Physical, 0)) {
    return std::unexpected("slot of the physical function not usable");
  }
  for (std::uint32_t vf = 1; vf <= card.options.virtual_functions; ++vf) {
    if (!start_function(card, kPhysical + vf, wire::FunctionKind::Virtual, vf)) {
      return std::unexpected("slot of a virtual function not usable");
    }
  }
  if (card.options.map_all && !map_unbound_slots(card)) return std::unexpected("no room to map all slots");
  for (Function& function : card.functions) {
    if (function.bound()) publish_header(function, card.boot_epoch());
  }
  if (wants_self_test(card)) {
    reach(card, CardState::SelfTest);
    if (const auto passed = run_boot_self_test(); !passed) return passed;
  }
  card.heart.start(hal::now());
  hal::set_after_record(card.options.restart_on_panic ? hal::AfterRecord::Restart : hal::AfterRecord::Exit,
                        card.boot_epoch());
  reach(card, CardState::Ready);
  return {};
}

}  // namespace fw
