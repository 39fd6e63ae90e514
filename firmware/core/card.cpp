// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/card.hpp"

#include "firmware/core/log_line.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using wire::PostCode;

// The console line is what a person sees of a boot, and `spyre boot` draws its time line from: "post 0x7 at 812 us: …".
void Card::set_state(CardState to) {
  fw::set_state(Machine::Card, machine_, to, 0);
  const PostCode code = post_code(to);
  hal::note(wire::RecordedEventKind::Post, static_cast<std::uint32_t>(code), 0);
  LogLine line;
  line.text("post 0x").number(static_cast<std::uint32_t>(code), 16).text(" at ");
  line.number(hal::now() / wire::kTicksPerMicrosecond).text(" us: ").text(wire::name(code));
  if (shown_post(*this) == static_cast<std::uint32_t>(code)) hal::log(line.c_str());
  for (Function& function : functions) {
    if (function.bound()) wire::store_release(function.header().post_code, shown_post(*this));
  }
}

void Card::init_cores(unsigned harts) {
  core_count_ = std::min(harts, kMaxCores);
  spaces.init(core_count_, options.virtual_functions + 1, pool);
  run_queues.init();
  launches.init(options.watchdog_slices, spaces, run_queues, pool, faults, traces);
}

std::uint32_t shown_post(const Card& card) {
  const bool shown = card.state() == CardState::Ready || !mutated(Mutant::BootSteps);
  return static_cast<std::uint32_t>(shown ? post_code(card.state()) : PostCode::None);
}

}  // namespace fw
