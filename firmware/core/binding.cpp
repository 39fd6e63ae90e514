// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/binding.hpp"

#include "firmware/core/card.hpp"
#include "firmware/core/reset.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/memory_order.hpp"

namespace fw {

namespace {

// Old indices of an earlier boot stay in a window that survived a warm reset: start behind them.
void adopt_fifos(Function& function) {
  auto& to_card = *function.at<wire::Fifo>(wire::kFifoToCard.offset);
  auto& to_host = *function.at<wire::Fifo>(wire::kFifoToHost.offset);
  function.control.read = wire::load_acquire(to_card.written);
  wire::store_release(to_card.read, function.control.read);
  function.control.written = wire::load_relaxed(to_host.written);
}

}  // namespace

void create_function(Card& card, unsigned id, wire::FunctionKind kind, std::uint32_t index) {
  Function& function = card.functions.add(id);
  // No generation of an earlier boot ever comes back.
  function.create({id, kind, index}, card.faults, card.event_grants, card.options.stream_timeouts,
                  card.boot_epoch() << 32);
  function.set_quota(kind == wire::FunctionKind::Virtual ? card.options.quota_bytes : 0);
}

bool bind_slot(Card& card, Function& function, const Place& place) {
  if (!hal::map_slot(place.slot)) return false;
  const std::span<std::byte> window = hal::window(place.slot);
  if (window.size() < wire::kMinWindowBytes || !hal::open_doorbell(place.doorbell)) {
    hal::unmap_slot(place.slot);
    return false;
  }
  function.bind(place, window);
  function.violations.forget();
  function.renew();
  adopt_fifos(function);
  clear_window_state(function);
  wire::store_relaxed(function.header().post_code, shown_post(card));
  wire::store_relaxed(function.header().heartbeat, card.heart.beats());
  publish_header(function, card.boot_epoch());
  card.plan.look_at(function);
  return true;
}

void retire_slot(Card& card, Function& function) {
  if (!function.bound()) return;
  begin_function_reset(card, function);
  function.reset.owe_nothing();  // nobody is left to be told
  function.unbind();
  // Marked before it is done: a reset of the card in between finds it half done, and finishes it.
  card.slots.retire(function.id());
  hal::close_doorbell(function.place().doorbell);
  hal::unmap_slot(function.place().slot);
  card.slots.finish_leaving(function.place().slot);
}

void finish_retirements(Card& card) {
  for (unsigned slot = 0; slot < hal::slot_count(); ++slot) {
    if (card.slots.use(slot) != SlotTable::Use::Leaving) continue;
    hal::unmap_slot(slot);
    card.slots.finish_leaving(slot);
  }
}

}  // namespace fw
