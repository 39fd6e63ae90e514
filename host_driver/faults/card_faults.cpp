// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/card_faults.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "host_driver/faults/fault_client.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/crc32c.hpp"
#include "shared/units.hpp"
#include "shared/window.hpp"

namespace svp::fault {

namespace {

constexpr unsigned kManagementSlot = 0;

ErrorInfo with_fault(ErrorInfo error, const Evidence& evidence) {
  const PointRule& rule = rule_of(evidence.fault.point);
  error.source = "fault " + std::to_string(evidence.index);
  error.message = std::string(rule.name) + " " + std::string(name(evidence.fault.action)) + ": " + error.message;
  return error;
}

}  // namespace

std::uint64_t ClockPair::ticks_at(std::uint64_t us) const {
  if (us <= microseconds) return 0;
  return ticks + (us - microseconds) * wire::kTicksPerMicrosecond;
}

std::uint64_t ClockPair::microseconds_at(std::uint64_t at) const {
  const auto ago = static_cast<std::int64_t>(at - ticks) / static_cast<std::int64_t>(wire::kTicksPerMicrosecond);
  const std::int64_t us = static_cast<std::int64_t>(microseconds) + ago;
  return us < 0 ? 0 : static_cast<std::uint64_t>(us);
}

wire::FaultSpec make_spec(const Fault& fault, std::uint32_t row, const ClockPair& clock) {
  wire::FaultSpec spec{};
  spec.fault = row;
  spec.point = card_point(fault.point);
  spec.action = card_action(fault.action);
  spec.trigger = carried_out(fault.trigger, clock.ticks_at(fault.trigger.not_before_us.low));
  spec.argument = fault.argument.low;
  spec.region_id = fault.region.value_or(0);
  spec.offset = fault.offset.value_or(Number()).low;
  spec.segment = static_cast<std::uint16_t>(fault.segment.value_or(0));
  return spec;
}

void take(Evidence& evidence, const wire::FaultEvidence& from, const ClockPair& clock) {
  evidence.counted = from.counted;
  evidence.fired = from.fired;
  evidence.still_armed = from.armed != 0;
  if (from.fired == 0) return;
  const std::uint32_t conditions = rule_of(evidence.fault.point).conditions;
  evidence.first_us = clock.microseconds_at(from.first_time);
  evidence.last_us = clock.microseconds_at(from.last_time);
  evidence.hart = from.hart;
  if ((conditions & kByFunction) != 0 && from.function != wire::kAnyFunction) evidence.function = from.function;
  if (from.stream != wire::kAnyStream && (conditions & kByStream) != 0) evidence.stream = from.stream;
  if (from.sequence != 0) evidence.sequence = from.sequence;
  if (from.progress != wire::kAnyProgress) evidence.progress = from.progress;
  if ((conditions & kByWaiting) != 0) evidence.waiting = from.waiting;
}

CardFaults::CardFaults(std::vector<Evidence>& faults, Clock::time_point begin) : faults_(faults), begin_(begin) {}

std::vector<Evidence*> CardFaults::mine() const {
  std::vector<Evidence*> found;
  for (Evidence& evidence : faults_) {
    if (home_of(evidence.fault.point) == Home::Card) found.push_back(&evidence);
  }
  return found;
}

Expected<void> CardFaults::open(Device* management) {
  management_ = management;
  if (management_ == nullptr) {
    auto opened = card_->open_management();
    if (!opened) return std::unexpected(std::move(opened.error()));
    own_management_ = *std::move(opened);
    management_ = own_management_.get();
  }
  armed_epoch_ = management_->config().boot_epoch;
  return {};
}

// The card read its clock between the two times of ours: half way is off by half the round trip at most.
Expected<void> CardFaults::read_clock() {
  const auto before = Clock::now();
  const auto ticks = FaultClient(*management_).time();
  if (!ticks) return std::unexpected(ticks.error());
  const auto between = before + (Clock::now() - before) / 2 - begin_;
  clock_ = {*ticks, static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(between).count())};
  return {};
}

Expected<void> CardFaults::arm(Card& card, Device* management) {
  if (mine().empty()) return {};
  card_ = &card;
  if (auto opened = open(management); !opened) return opened;
  armed_ = true;  // from here on there may be something to disarm
  if (auto read = read_clock(); !read) return read;
  return arm_rows(false);
}

Expected<void> CardFaults::arm_memory() { return armed_ ? arm_rows(true) : Expected<void>(); }

Expected<void> CardFaults::arm_rows(bool in_memory) {
  std::uint32_t next_row = 0;
  for (Evidence* evidence : mine()) {
    const std::uint32_t row = next_row++;
    if ((evidence->fault.point == Point::CardMemory) != in_memory || evidence->was_armed) continue;
    const auto armed = FaultClient(*management_).arm(make_spec(evidence->fault, row, clock_));
    if (!armed) return std::unexpected(with_fault(armed.error(), *evidence));
    evidence->was_armed = evidence->still_armed = true;
  }
  return {};
}

void CardFaults::refresh() {
  if (!armed_) return;
  if (management_->health() == Health::Dead || management_->health() == Health::NeedsReset) return read_record();
  std::uint32_t next_row = 0;
  for (Evidence* evidence : mine()) {
    const std::uint32_t row = next_row++;
    if (!evidence->was_armed) continue;
    const auto found = FaultClient(*management_).query(row);
    // A card that was booted anew meanwhile has empty rows: what was known stays.
    if (found) {
      take(*evidence, *found, clock_);
    } else if (found.error().status != wire::Status::NotArmed) {
      return read_record();
    }
  }
}

Expected<void> CardFaults::disarm() {
  if (!std::exchange(armed_, false)) return {};
  armed_ = true;
  refresh();
  armed_ = false;
  Expected<void> result;
  if (management_->health() == Health::Alive || management_->health() == Health::Silent) {
    result = FaultClient(*management_).disarm_all();
  }
  for (Evidence* evidence : mine()) evidence->still_armed = false;
  management_ = nullptr;
  own_management_.reset();
  return result;
}

// Only an emulator that runs has another boot of the firmware, and a window that tells of the last one.
void CardFaults::read_record() {
  for (Evidence* evidence : mine()) evidence->still_armed = false;
  const auto slot = card_->slot(kManagementSlot);
  if (!slot) return;
  const auto window = Window::map(slot->window_fd(), slot->window_bytes());
  if (!window) return;
  const auto& header = (*window)->at<wire::WindowHeader>(0);
  if (wire::load_acquire(header.record_bytes) < sizeof(wire::FatalRecord)) return;
  auto record = std::make_unique<wire::FatalRecord>();
  std::memcpy(record.get(), (*window)->bytes().data() + wire::kFatalRecord.offset, sizeof *record);
  if (record->boot_epoch != armed_epoch_) return;  // of another boot
  std::vector<Evidence*> left = mine();
  for (const wire::RecordedEvent& event : fired_in(*record)) {
    for (Evidence* evidence : left) {
      const bool same = event.a == static_cast<std::uint32_t>(evidence->fault.point) &&
                        event.b == static_cast<std::uint64_t>(evidence->fault.action);
      const std::uint64_t us = clock_.microseconds_at(event.time);
      if (!same || (evidence->fired != 0 && us <= evidence->last_us)) continue;
      if (evidence->fired++ == 0) evidence->first_us = us;
      evidence->last_us = us;
      evidence->counted = std::max(evidence->counted, evidence->fired);
      evidence->note = "from the record that the card's last boot left";
      break;
    }
  }
}

std::vector<wire::RecordedEvent> fired_in(const wire::FatalRecord& record) {
  const bool ours = record.magic == wire::kFatalRecordMagic && record.version == wire::kFatalRecordVersion &&
                    record.bytes == sizeof record;
  if (!ours) return {};
  const std::uint32_t before = wire::crc32c(0, &record, offsetof(wire::FatalRecord, crc32c));
  const std::uint32_t zero = 0;
  const std::uint32_t middle = wire::crc32c(before, &zero, sizeof zero);
  constexpr std::size_t kBehind = offsetof(wire::FatalRecord, crc32c) + sizeof record.crc32c;
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  if (wire::crc32c(middle, bytes + kBehind, sizeof record - kBehind) != record.crc32c) return {};
  std::vector<wire::RecordedEvent> fired;
  for (unsigned i = 0; i < wire::kRecordedEvents; ++i) {
    const wire::RecordedEvent& event = record.events[(record.next_event + i) % wire::kRecordedEvents];
    if (event.kind == wire::RecordedEventKind::FaultFired) fired.push_back(event);
  }
  return fired;
}

}  // namespace svp::fault
