// SPDX-License-Identifier: Apache-2.0
// A kernel that uses every register is stopped again and again, by the timer and by messages, while other kernels and
// the firmware's own vector moves use the registers: its result is right to the bit.
#include <array>

#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "firmware/probe/timeouts.hpp"
#include "shared/units.hpp"

namespace probe {

namespace {

constexpr std::uint64_t kIterations = 20'000;
constexpr std::uint64_t kShortSlice = 500 * wire::kTicksPerMicrosecond;
constexpr std::uint64_t kResult = 8192;  // offset of the labour's result block
constexpr std::uint64_t kVectorLanes = 128;
constexpr std::uint64_t kUsedLanes = kVectorLanes - 3;

hal::Context labourer;
hal::Context other;
alignas(128) std::array<std::byte, 64 * 1024> source, target;

std::uint64_t bits_of(std::uint64_t integer_below_2_52) {
  // A small integer as a double, without floating point in firmware code.
  if (integer_below_2_52 == 0) return 0;
  const int exponent = 63 - __builtin_clzll(integer_below_2_52);
  return (std::uint64_t{1023} + exponent) << 52 |
         (integer_below_2_52 << (52 - exponent) & ((std::uint64_t{1} << 52) - 1));
}

void check_result(Proof& proof, const std::uint64_t* block) {
  for (std::uint64_t n = 1; n < 32; ++n) {
    if (n == 11) continue;
    const std::uint64_t wanted = n == 10 ? 0 : (n << 32) + n * kIterations;
    proof.expect_equal(block[n], wanted, "an integer register");
  }
  for (std::uint64_t n = 0; n < 32; ++n) {
    proof.expect_equal(block[32 + n], bits_of(n < 2 ? n : n + kIterations), "a float register");
  }
  proof.expect_equal(block[64], 1 << 5, "fcsr");
  proof.expect_equal(block[65], 0, "vstart");
  proof.expect_equal(block[66], kUsedLanes, "vl");
  proof.expect_equal(block[67], 3 << 3 | 3, "vtype (e64, m8, tu, mu)");
  proof.expect_equal(block[68], 2 << 1, "vcsr");
  constexpr std::array<std::uint64_t, 4> kSteps = {1, 2, 3, 5};
  for (std::uint64_t group = 0; group < 4; ++group) {
    for (std::uint64_t lane = 0; lane < kVectorLanes; ++lane) {
      const std::uint64_t wanted = group + (lane < kUsedLanes ? kSteps[group] * kIterations : 0);
      proof.expect_equal(block[128 + group * kVectorLanes + lane], wanted, "a vector lane");
    }
  }
}

void start_labour(const Space& space) {
  space.data()[0] = kIterations;
  space.data()[1] = space.data_address(kResult);
  space.start(labourer, probe_kernel_labour, space.data_address());
}

// Everything that may happen between two slices; returns what went wrong.
void disturb(Proof& proof, const Space& space, std::uint64_t round) {
  if (round % 4 != 3) {
    space.start(other, probe_kernel_dump, space.data_address(32 * 1024));
    proof.expect(run_through(other).reason == hal::StopReason::Exit, "the other kernel ended");
    std::uint64_t* block = space.data(32 * 1024);
    std::uint64_t seen = 0;
    for (std::uint64_t n = 1; n < 32; ++n) seen |= n == 2 || n == 10 ? 0 : block[n];
    for (std::uint64_t n = 32; n < 640; ++n) seen |= n > 68 && n < 128 ? 0 : block[n];
    proof.expect_equal(seen, 0, "a fresh kernel's registers, all of them together,");
  }
  if (round % 4 != 2) {
    const std::span<std::byte> from = std::span(source).first(1024 + round * 997 % (63 * 1024));
    scramble(from.first(2000 % from.size()), round);
    hal::copy(target.data(), source.data(), from.size());
    proof.expect(scrambled(std::span(target).first(2000 % from.size()), round), "a vector move in between");
  }
  if (round % 4 != 1) {
    space.start(other, probe_kernel_dirty, 0);
    proof.expect(run_through(other).reason == hal::StopReason::Exit, "the dirtying kernel ended");
  }
}

// Runs the labour to its end and counts how often it was stopped, and by what.
struct Stops {
  std::uint64_t timer = 0;
  std::uint64_t interrupted = 0;
};
Stops run_disturbed(Proof& proof, const Space& space, const Space& others) {
  Stops stops;
  start_labour(space);
  for (std::uint64_t round = 0; round < 100'000; ++round) {
    const hal::Stop stop = hal::run(labourer, kShortSlice);
    if (stop.reason == hal::StopReason::Exit) return stops;
    if (!proof.expect(stop.reason == hal::StopReason::Timer || stop.reason == hal::StopReason::Interrupted,
                      "only timer and messages stop it")) {
      return stops;
    }
    ++(stop.reason == hal::StopReason::Timer ? stops.timer : stops.interrupted);
    disturb(proof, others, round);
  }
  proof.expect(false, "it ends");
  return stops;
}

void suspended_by_timer(const Space& space, const Space& others) {
  Proof proof("a kernel suspended by its slice goes on bit-right");
  const Stops stops = run_disturbed(proof, space, others);
  proof.expect(stops.timer >= 5, "several slices were needed");
  check_result(proof, space.data(kResult));
  figure("labour_slices", stops.timer, "slices");
}

void suspended_by_message(const Space& space, const Space& others) {
  Proof proof("a kernel suspended by messages goes on bit-right");
  if (!helper_present()) return proof.skip("one hart only");
  helper_ring(100 * wire::kTicksPerMicrosecond);
  // The helper may be without a CPU for longer than the labour takes: then it is done again.
  const std::uint64_t limit = hal::now() + probe::kHelperAnswerTicks;
  std::uint64_t interrupted = 0;
  while (interrupted < 5 && hal::now() < limit) {
    interrupted += run_disturbed(proof, space, others).interrupted;
    check_result(proof, space.data(kResult));
  }
  helper_stop();
  proof.expect(interrupted >= 5, "several messages came");
  figure("labour_messages", interrupted, "messages");
}

void message_before_entry(const Space& space) {
  Proof proof("a message just before the entry ends the slice at once");
  for (int i = 0; i < 1000; ++i) {
    space.start(other, probe_kernel_endless, 0);
    hal::wake(hal::hart_id());
    const hal::Stop stop = hal::run(other, wire::kTicksPerSecond);
    if (!proof.expect(stop.reason == hal::StopReason::Interrupted, "the stop is the message")) break;
    if (!proof.expect(stop.ran_ticks < wire::kTicksPerSecond / 2, "at once")) break;
    hal::drop(other);
  }
}

void slices_have_their_length(const Space& space) {
  Proof proof("a slice lasts as long as it should, also behind a shorter timer");
  space.start(other, probe_kernel_endless, 0);
  constexpr std::uint64_t kTicks[] = {500, 20'000, 300, 10'000};
  for (const std::uint64_t ticks : kTicks) {
    const hal::Stop stop = hal::run(other, ticks);
    proof.expect(stop.reason == hal::StopReason::Timer, "the timer ends it");
    proof.expect(stop.ran_ticks >= ticks, "not too early");
    proof.expect(stop.ran_ticks < ticks + wire::kTicksPerSecond, "not a second late");
  }
  // Arms a near deadline, leaves it unused, then asks for a far one.
  space.start(other, probe_kernel_exit, 0);
  (void)hal::run(other, 3000);
  space.start(other, probe_kernel_endless, 0);
  const hal::Stop stop = hal::run(other, 30'000);
  proof.expect(stop.reason == hal::StopReason::Timer && stop.ran_ticks >= 30'000, "the earlier timer was not its end");
  hal::drop(other);
}

}  // namespace

void prove_suspension() {
  const Space space, others;
  slices_have_their_length(space);
  message_before_entry(space);
  suspended_by_timer(space, others);
  suspended_by_message(space, others);
}

}  // namespace probe
