// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/state_machine.hpp"

#include "firmware/hal/record.hpp"

namespace fw {

void refuse_state_change() { hal::panic("a state was to be left for one that is not next to it"); }

void log_change(Machine machine, unsigned from, unsigned to, std::uint64_t subject) {
  const wire::RecordedChange change{machine, static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to)};
  hal::note(wire::RecordedEventKind::StateChanged, change.pack(), subject);
}

}  // namespace fw
