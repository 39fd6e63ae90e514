// SPDX-License-Identifier: Apache-2.0
// With a host at the other side (tests/device/firmware): every slot is mapped, both sides see the same bytes, doorbells
// ring both ways, and addresses are used again. Words of the window's first page, 8 bytes each:
//   0 card: kHello + slot number    1 host: kHello + slot number, then rings    2 card: window size
#include <algorithm>
#include <atomic>

#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "firmware/probe/timeouts.hpp"
#include "shared/admin.hpp"
#include "shared/units.hpp"

namespace probe {

namespace {

constexpr std::uint64_t kHello = 0x600d'0000'0000'0000;

std::atomic_ref<std::uint64_t> word(unsigned slot, std::uint64_t index) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(hal::window(slot).data() + 8 * index));
}

// The host answers by memory and doorbell; sleeps without any nearer deadline, so the doorbell must end them.
bool answered(unsigned slot) {
  const std::uint64_t end = hal::now() + kHostAnswerTicks;
  while (word(slot, 1).load(std::memory_order_acquire) != kHello + slot) {
    if (hal::now() >= end) return false;
    hal::sleep_until(end);
  }
  return hal::now() < end;
}

void say_hello(unsigned slot) {
  word(slot, 2).store(hal::window(slot).size(), std::memory_order_relaxed);
  word(slot, 0).store(kHello + slot, std::memory_order_release);
  hal::signal(slot, wire::kBootPeer);
}

unsigned all_slots_are_mapped() {
  Proof proof("every slot is mapped, apart from all others, and its owner answers");
  unsigned mapped = 0;
  while (mapped < hal::slot_count() && hal::map_slot(mapped)) ++mapped;
  proof.expect(mapped > 0, "at least one");
  for (unsigned a = 0; a < mapped; ++a) {
    proof.expect(hal::map_slot(a), "mapping again is no change");
    for (unsigned b = a + 1; b < mapped; ++b) {
      proof.expect(hal::window(a).data() + hal::window(a).size() <= hal::window(b).data() ||
                       hal::window(b).data() + hal::window(b).size() <= hal::window(a).data(),
                   "windows do not overlap");
    }
  }
  for (unsigned slot = 0; slot < mapped; ++slot) say_hello(slot);
  for (unsigned slot = 0; slot < mapped; ++slot) proof.expect(answered(slot), "the host's answer and doorbell");
  figure("slots_mapped", mapped, "slots");
  return mapped;
}

void addresses_are_reused(unsigned mapped) {
  Proof proof("an address that a slot gave back serves the next one");
  const std::span<std::byte> before = hal::window(0);
  const std::uint64_t first = word(0, 0).load();
  hal::unmap_slot(0);
  proof.expect(hal::window(0).empty(), "the window is gone");
  hal::signal(0, wire::kBootPeer);  // no doorbell, no harm
  const unsigned next = mapped < hal::slot_count() ? mapped : 0;
  proof.expect(hal::map_slot(next), "there is room again");
  proof.expect(hal::window(next).data() == before.data(), "the same address");
  if (next == 0) {
    proof.expect_equal(word(0, 0).load(), first, "the content of the window");
  } else {
    say_hello(next);
    proof.expect(answered(next), "the host's answer and doorbell");
    proof.expect(!hal::map_slot(0), "and no room for a further one");
  }
}

void impossible_slots_are_refused() {
  Proof proof("slots that do not exist are refused");
  proof.expect(!hal::map_slot(hal::slot_count()) && !hal::map_slot(~0u), "mapping");
  proof.expect(hal::window(~0u).empty(), "window");
  hal::unmap_slot(~0u);
  hal::signal(~0u, wire::kBootPeer);
}

}  // namespace

void prove_slots() {
  const unsigned mapped = all_slots_are_mapped();
  if (mapped > 0) addresses_are_reused(mapped);
  impossible_slots_are_refused();
  finish();
}

}  // namespace probe
