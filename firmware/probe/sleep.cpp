// SPDX-License-Identifier: Apache-2.0
// Sleeping: nothing that came is slept over, and nobody sleeps past a deadline.
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "shared/units.hpp"

namespace probe {

namespace {

constexpr std::uint64_t kMillisecond = wire::kTicksPerSecond / 1000;
constexpr std::uint64_t kFar = 20 * wire::kTicksPerSecond;

hal::Context elsewhere, here;

void a_deadline_ends_a_sleep() {
  Proof proof("a deadline ends a sleep");
  for (const std::uint64_t ticks : {kMillisecond / 10, kMillisecond, 5 * kMillisecond}) {
    const std::uint64_t end = hal::now() + ticks;
    while (hal::now() < end) hal::sleep_until(end);
    proof.expect(hal::now() < end + wire::kTicksPerSecond, "not a second late");
  }
  hal::sleep_until(0);
  hal::sleep_until(hal::now());
}

void a_wake_before_the_sleep_counts() {
  Proof proof("a wake that came before the sleep ends it at once");
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t began = hal::now();
    hal::wake(hal::hart_id());
    hal::sleep_until(began + kFar);
    if (!proof.expect(hal::now() < began + kFar / 2, "no sleep")) return;
  }
}

void no_deadline_is_no_deadline() {
  Proof proof("without a deadline a wake still ends the sleep");
  hal::wake(hal::hart_id());
  hal::sleep_until(~std::uint64_t{0});  // bounded: the wake came before; the host test bounds the probe
  if (!helper_present()) return proof.skip("the rest needs two harts");
  helper_ring(kMillisecond);
  const std::uint64_t began = hal::now();
  // bounded: the helper wakes us every millisecond; the host test bounds the probe
  for (int i = 0; i < 20; ++i) hal::sleep_until(~std::uint64_t{0});
  helper_stop();
  proof.expect(hal::now() < began + kFar, "in time");
}

void a_context_on_another_hart() {
  Proof proof("a context that another hart ran is dropped from there before its memory is used again");
  if (!helper_present()) return proof.skip("one hart only");
  const Space space, others;
  for (int round = 0; round < 20; ++round) {
    // Leaves the fault open, with f and v registers of hart 1 in use by `elsewhere`.
    space.data()[0] = 8 * wire::kGiB;
    space.start(elsewhere, probe_kernel_dirty_and_fault, space.data_address());
    hal::Stop stop{};
    if (!proof.expect(helper_run(elsewhere, stop), "hart 1 answers")) return;
    proof.expect(stop.reason == hal::StopReason::Fault, "it faulted");
    hal::drop(elsewhere);
    elsewhere.vector.fill(0x1111);
    elsewhere.floating.fill(0x1111);
    others.start(here, probe_kernel_dump, others.data_address());
    if (!proof.expect(helper_run(here, stop), "hart 1 answers")) return;
    std::uint64_t seen = 0;
    for (std::uint64_t n = 32; n < 640; ++n) seen |= n > 68 && n < 128 ? 0 : others.data()[n];
    proof.expect_equal(seen, 0, "what the next kernel saw");
    for (const std::uint64_t word : elsewhere.vector) proof.expect_equal(word, 0x1111, "the dropped context's memory");
    for (const std::uint64_t word : elsewhere.floating)
      proof.expect_equal(word, 0x1111, "the dropped context's memory");
  }
}

}  // namespace

void prove_sleep() {
  a_deadline_ends_a_sleep();
  a_wake_before_the_sleep_counts();
  no_deadline_is_no_deadline();
  a_context_on_another_hart();
}

}  // namespace probe
