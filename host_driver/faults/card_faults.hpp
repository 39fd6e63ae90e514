// SPDX-License-Identifier: Apache-2.0
// The part of a session that is on the card: rows of its fault table, armed and asked through a FaultClient.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "host_driver/device/device.hpp"
#include "host_driver/faults/evidence.hpp"
#include "qemu/card.hpp"
#include "shared/fatal_record.hpp"
#include "shared/fault.hpp"

namespace svp::fault {

// Device time and the session's, read together.
struct ClockPair {
  std::uint64_t ticks = 0;
  std::uint64_t microseconds = 0;  // since the session began

  std::uint64_t ticks_at(std::uint64_t us) const;            // 0 and before the pair: 0
  std::uint64_t microseconds_at(std::uint64_t ticks) const;  // before the session: 0
};

// `fault` as the card wants it in `row`. Its numbers are drawn.
wire::FaultSpec make_spec(const Fault& fault, std::uint32_t row, const ClockPair& clock);
// What the card says of it.
void take(Evidence& evidence, const wire::FaultEvidence& from, const ClockPair& clock);

class CardFaults {
 public:
  using Clock = std::chrono::steady_clock;

  // `faults`: the whole script; only the card's are used here. `begin`: of the session. Both outlive this, the card
  // too.
  CardFaults(std::vector<Evidence>& faults, Clock::time_point begin);

  Expected<void> arm(Card& card, Device* management);  // all but those at a place in memory
  Expected<void> arm_memory();                         // these
  // Updates the evidence. What a card that restarted can not tell any more is looked up in the record that its earlier
  // boot left.
  void refresh();
  Expected<void> disarm();

 private:
  Expected<void> open(Device* management);
  Expected<void> read_clock();
  void read_record();
  Expected<void> arm_rows(bool in_memory);
  // In the order of their rows.
  std::vector<Evidence*> mine() const;

  std::vector<Evidence>& faults_;
  const Clock::time_point begin_;
  Card* card_ = nullptr;
  Device* management_ = nullptr;
  std::unique_ptr<Device> own_management_;
  std::uint64_t armed_epoch_ = 0;
  ClockPair clock_;
  bool armed_ = false;
};

// Faults that fired, as the card's last boot noted them before it ended. Empty when the record is not valid.
std::vector<wire::RecordedEvent> fired_in(const wire::FatalRecord& record);

}  // namespace svp::fault
