// SPDX-License-Identifier: Apache-2.0
// Hart 1 sleeps until hart 0 asks something of it.
#include <atomic>

#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/hal/spin_lock.hpp"
#include "firmware/probe/probe.hpp"
#include "firmware/probe/timeouts.hpp"
#include "shared/units.hpp"

namespace {

enum class Order : std::uint32_t { Sleep, Ring, Run, Break, Hang, Accuse, Lock };

constinit std::atomic<Order> order{Order::Sleep};
constinit std::atomic<std::uint64_t> period{0};
constinit std::atomic<hal::Context*> work{nullptr};
constinit std::atomic<std::uint64_t> arrived{0};
constinit std::atomic<bool> hanging{false};
constinit hal::SpinLock contended;
hal::Stop last_stop;

void give(Order what) {
  order.store(what, std::memory_order_release);
  hal::wake(1);
}

}  // namespace

namespace fw {

[[noreturn]] void core_main(unsigned hart) {
  arrived.fetch_add(1, std::memory_order_release);
  for (;;) {
    const Order what = hart == 1 ? order.load(std::memory_order_acquire) : Order::Sleep;
    switch (what) {
      case Order::Sleep: hal::sleep_until(hal::now() + probe::kHelperIdleTicks); break;
      case Order::Ring:
        hal::wake(0);
        hal::sleep_until(hal::now() + period.load(std::memory_order_relaxed));
        break;
      case Order::Run:
        hal::mark(wire::Waypoint::Slice);
        last_stop = probe::run_through(*work.load(std::memory_order_relaxed), probe::kHelperAnswerTicks);
        order.store(Order::Sleep, std::memory_order_release);
        break;
      case Order::Hang:
        hanging.store(true, std::memory_order_release);
        for (;;) asm volatile("" ::: "memory");  // bounded: it hangs on purpose: the other hart has to notice
      case Order::Accuse:
        // bounded: hart 0 marks it before it stands still; the host test bounds the probe
        while (hal::waypoint_of(0) != wire::Waypoint::Dma) asm volatile("pause");
        hal::stuck(0, "accused");
      case Order::Lock:
        hal::mark(wire::Waypoint::Dma);
        contended.lock();
        break;
      case Order::Break: asm volatile("sd zero, 0(%0)" : : "r"(std::uint64_t{16}) : "memory"); break;
    }
  }
}

}  // namespace fw

namespace probe {

bool helper_present() {
  const std::uint64_t end = hal::now() + kHelperAnswerTicks;
  while (arrived.load(std::memory_order_acquire) + 1 < hal::hart_count() && hal::now() < end) {
    hal::sleep_until(hal::now() + kHelperCheckTicks);
  }
  return arrived.load(std::memory_order_acquire) > 0;
}

void helper_ring(std::uint64_t ticks) {
  period.store(ticks, std::memory_order_relaxed);
  give(Order::Ring);
}

bool helper_run(hal::Context& context, hal::Stop& stop) {
  work.store(&context, std::memory_order_relaxed);
  give(Order::Run);
  const std::uint64_t end = hal::now() + kHelperAnswerTicks;
  while (order.load(std::memory_order_acquire) != Order::Sleep) {
    if (hal::now() > end) return false;
    hal::sleep_until(hal::now() + kHelperCheckTicks);
  }
  stop = last_stop;
  return true;
}

void helper_hang() {
  give(Order::Hang);
  // bounded: the helper is told within kHelperIdleTicks
  while (!hanging.load(std::memory_order_acquire)) asm volatile("pause");
}

void helper_run_on(hal::Context& context) {
  work.store(&context, std::memory_order_relaxed);
  give(Order::Run);
}

void helper_accuse() { give(Order::Accuse); }

void helper_lock() {
  contended.lock();
  give(Order::Lock);
}

void helper_break() { give(Order::Break); }

void helper_stop() { give(Order::Sleep); }

}  // namespace probe
